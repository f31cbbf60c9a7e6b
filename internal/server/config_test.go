package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func load(t *testing.T, text string) (Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "aloft.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return LoadConfig(file, func(name string) string { return map[string]string{"KEY": "from-env"}[name] })
}

func TestLoadConfig(t *testing.T) {
	c, err := load(t, `
models:
  - id: house
    provider: anthropic
    name: claude-sonnet-4-5
    base_url: http://127.0.0.1:9000
    api_key_env: KEY
  - {id: local, provider: openai, api: chat}
default_model: house
git:
  credentials:
    - url: https://git.example.com
      username: x
      token_env: KEY
`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Models[0].APIKey != "from-env" || c.Models[1].Name != "local" || c.Git.Credentials[0].Token != "from-env" {
		t.Errorf("got %+v", c)
	}
	if c.Machine.Image != "host" || c.Git.AuthorName != "Aloft" {
		t.Errorf("what is not given is not the default: %+v", c)
	}
}

func TestLoadConfigSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"UnknownKey", "models:\n  - id: a\n    provider: scripted\n    colour: red\n", `:4: unknown key "colour"`},
		{"UnknownTopKey", "modells: []\n", `:1: unknown key "modells"`},
		{"PriceWithoutOutput", "models:\n  - id: a\n    provider: scripted\n    price: {input: 3}\n", "models[0].price: input and output are required"},
		{"PriceBelowZero", "models:\n  - id: a\n    provider: scripted\n    price: {input: -3, output: 1}\n", "models[0].price: -3 is out of range"},
		{"PriceThatIsNone", "models:\n  - id: a\n    provider: scripted\n    price: {input: .nan, output: 1}\n", "models[0].price: NaN"},
		{"QuotaBelowZero", "quotas: {running: -1}\n", "quotas.running"},
		{"DiskQuotaBelowZero", "quotas: {disk_inodes: -1}\n", "quotas.disk_inodes"},
		{"LimitBelowZero", "limits: {turns: -1}\n", "limits.turns"},
		{"LimitOfTimeThatIsNone", "limits: {time: long}\n", "limits.time: invalid duration \"long\""},
		{"LimitOfMoneyWithoutAPrice", "models:\n  - {id: a, provider: scripted, price: {input: 1, output: 1, cache_read: 0, cache_write: 0}}\n  - {id: b, provider: scripted}\nlimits: {cost: 5}\n", "the price of the model b is not known"},
		{"LimitOfMoneyWithHalfAPrice", "models:\n  - {id: a, provider: scripted, price: {input: 1, output: 1, cache_read: 1}}\nlimits: {cost: 5}\n", "the price of the model a for cache_write is not known"},
		{"WrongType", "models:\n  - id: a\n    provider: scripted\n    context_window: many\n", ":4: "},
		{"WrongTypeOfList", "models: house\n", ":1: "},
		{"NotYAML", "models:\n  - id: [\n", ":"},
		{"Tab", "models:\n\t- id: a\n", ":2: "},
		{"NoProvider", "models:\n  - id: a\n", "models[0].provider is missing"},
		{"NoSuchProvider", "models:\n  - {id: a, provider: acme}\n", `models[0].provider: invalid value "acme"`},
		{"NoID", "models:\n  - provider: scripted\n", "models[0].id is missing"},
		{"IDTwice", "models:\n  - {id: a, provider: scripted}\n  - {id: a, provider: scripted}\n", "duplicate"},
		{"FastIsNone", "models:\n  - {id: a, provider: scripted}\nfast_model: b\n", `fast_model: no model has the id "b"`},
		{"FallbackIsNone", "models:\n  - {id: a, provider: scripted, fallback: b}\n", `models[0].fallback: no model has the id "b"`},
		{"FallbackOfItself", "models:\n  - {id: a, provider: scripted, fallback: a}\n", `models[0].fallback: "a" leads back`},
		{"FallbackInACircle", "models:\n  - {id: a, provider: scripted, fallback: b}\n  - {id: b, provider: scripted, fallback: a}\n", `models[0].fallback: "a" leads back`},
		{"FallbackWithoutTheParameter", "models:\n  - {id: a, provider: scripted, fallback: 'b[effort=low]'}\n  - {id: b, provider: scripted}\n", "models[0].fallback: "},
		{"FallbackAfterNothing", "models:\n  - {id: a, provider: scripted, fallback_after: 2}\n", "models[0].fallback_after: needs fallback"},
		{"OneCallOfGoogle", "models:\n  - {id: a, provider: google, parallel_tool_calls: false}\n", "models[0].parallel_tool_calls: provider google"},
		{"DefaultIsNone", "models:\n  - {id: a, provider: scripted}\ndefault_model: b\n", `default_model: no model has the id "b"`},
		{"VariableNotSet", "models:\n  - {id: a, provider: openai, api_key_env: NOPE}\n", "the variable NOPE is not set"},
		{"KeyTwice", "models:\n  - {id: a, provider: openai, api_key: x, api_key_env: KEY}\n", "cannot both be set"},
		{"NoSuchAPI", "models:\n  - {id: a, provider: openai, api: soap}\n", "must be responses or chat"},
		{"NoSuchClass", "machine: {class: weak}\n", "machine.class"},
		{"NoSuchSleep", "machine: {sleep: deep}\n", "machine.sleep"},
		{"RegistryIsAURL", "images: {credentials: [{host: 'https://ghcr.io', token: x}]}\n", "images.credentials[0].host"},
		{"RegistryTwice", "images: {credentials: [{host: a, token: x}, {host: a, token: y}]}\n", "duplicate"},
		{"NoDuration", "images: {recheck: daily}\n", "images.recheck"},
		{"NoSuchBuilder", "images: {builder: make}\n", "images.builder"},
		{"BuilderAtWithoutABuilder", "images: {builder_at: 'unix:///run/docker.sock'}\n", "images.builder_at requires images.builder"},
		{"NoSuchBuildNetwork", "images: {build_network: lan}\n", "images.build_network"},
		{"NoSuchRunMode", "policy: {run_mode: careful}\n", "policy.run_mode"},
		{"NoSuchClassifier", "policy: {classifier_model: judge}\n", "policy.classifier_model"},
		{"DenyAfterNothing", "policy: {deny_after: 0s}\n", "policy.deny_after"},
		{"ProviderWithoutIssuer", "sign_in: {oidc: {client_id: x}}\n", "sign_in.oidc.issuer is missing"},
		{"ProviderInTheClear", "sign_in: {oidc: {issuer: 'http://example.com', client_id: x}}\n", "sign_in.oidc.issuer"},
		{"ProviderWithoutClient", "sign_in: {oidc: {issuer: 'https://example.com'}}\n", "sign_in.oidc.client_id is missing"},
		{"ProviderMakesAdmins", "sign_in: {oidc: {issuer: 'https://example.com', client_id: x, role: admin}}\n", "sign_in.oidc.role"},
		{"ProviderOfAll", "sign_in: {oidc: {issuer: 'https://example.com', client_id: x, domains: ['*']}}\n", "sign_in.oidc.domains[0]"},
		{"NoSuchForge", "git: {credentials: [{url: 'https://git.example.com', token: x, forge: svn}]}\n", `git.credentials[0].forge: invalid value "svn": must be github, gitlab, gitea or none`},
		{"APIWithoutForge", "git: {credentials: [{url: 'https://git.example.com', token: x, api: 'https://git.example.com/api/v1'}]}\n", "git.credentials[0].forge is missing"},
		{"APIIsNone", "git: {credentials: [{url: 'https://git.example.com', token: x, forge: gitea, api: '/api/v1'}]}\n", "git.credentials[0].api"},
		{"TwoForgesOfAHost", "git: {credentials: [{url: 'https://h.example.com/a', token: x, forge: gitea}, {url: 'https://h.example.com/b', token: x, forge: gitlab}]}\n", "disagree about the host h.example.com"},
		{"AppWithoutAKey", "git: {credentials: [{url: 'https://github.com', app: {id: '1'}}]}\n", "git.credentials[0].app: id and key are required"},
		{"AppWithABadKey", "git: {credentials: [{url: 'https://github.com', app: {id: '1', key: x}}]}\n", "git.credentials[0].app: a GitHub App needs"},
		{"AppOfGitLab", "git: {credentials: [{url: 'https://gitlab.com', app: {id: '1', key: x}}]}\n", "git.credentials[0].app: only GitHub supports apps"},
		{"AppAndToken", "git: {credentials: [{url: 'https://github.com', token: x, app: {id: '1', key: x}}]}\n", "not both"},
		{"NoTokenFile", "git: {credentials: [{url: 'https://git.example.com', token_file: nowhere}]}\n", "git.credentials[0].token_file"},
		{"ConnectionWithoutASecret", "connections: [{name: a, source: github}]\n", "connections[0].secret is missing"},
		{"ConnectionWithAShortSecret", "connections: [{name: a, source: github, secret: short}]\n", "connections[0].secret: has 5 characters"},
		{"ConnectionOfNoSource", "connections: [{name: a, source: svn, secret: 0123456789abcdef}]\n", `connections[0].source: invalid value "svn"`},
		{"ConnectionWithABadName", "connections: [{name: A B, source: github, secret: 0123456789abcdef}]\n", "connections[0].name: invalid value"},
		{"ConnectionWithoutAHost", "connections: [{name: a, source: gitea, secret: 0123456789abcdef}]\n", "connections[0].host is missing"},
		{"ConnectionWithABadHost", "connections: [{name: a, source: gitea, host: 'https://git.example.com', secret: 0123456789abcdef}]\n", "connections[0].host: invalid value"},
		{"ConnectionTwice", "connections: [{name: a, source: github, secret: 0123456789abcdef}, {name: a, source: github, secret: 0123456789abcdef}]\n", "duplicate connection"},
		{"PollsTooOften", "pull_requests: {poll: 1s}\n", "pull_requests.poll"},
		{"ReviewsABadSeverity", "reviews: {fail_on: critical}\n", "reviews.fail_on: invalid value"},
		{"ReviewsABadAuthor", "reviews: {authors: ada}\n", "reviews.authors: invalid value"},
		{"ReviewsABadOwner", "reviews: {owner: bot}\n", "reviews.owner: invalid value"},
		{"ReviewsOfNobody", "reviews: {repositories: ['https://github.com/acme/app']}\n", "reviews.owner: is missing"},
		{"ReviewsOfNoRepository", "reviews: {owner: a@example.com, repositories: [github.com]}\n", "reviews.repositories[0]: invalid value"},
		{"ReviewsWithoutEvents", "reviews: {owner: a@example.com, repositories: ['https://github.com/acme/app']}\n", "reviews.repositories[0]: no connection sends the events of github.com"},
		{"MentionsABadHandle", "mentions: {handle: '@aloft'}\n", "mentions.handle: invalid value"},
		{"MentionsABadLogin", "mentions: {accounts: {ada: ada@example.com}}\n", `mentions.accounts: invalid entry "ada"`},
		{"MentionsABadAccount", "mentions: {accounts: {github.com/ada: ada}}\n", "mentions.accounts: invalid entry"},
		{"MentionsABadOwner", "mentions: {owner: bot}\n", "mentions.owner: invalid value"},
		{"MentionsPolledForNobody", "mentions: {poll: ['https://github.com/acme/app']}\n", "mentions.poll: set mentions.accounts"},
		{"MentionsPolledNever", "pull_requests: {poll: 0s}\nmentions: {owner: a@example.com, poll: ['https://github.com/acme/app']}\n", "mentions.poll: set pull_requests.poll"},
		{"MentionsOfNoRepository", "mentions: {owner: a@example.com, poll: [github.com]}\n", "mentions.poll[0]: invalid value"},
		{"GathersTooLong", "pull_requests: {gather: 2h}\n", "pull_requests.gather"},
		{"CredentialWithoutURL", "git:\n  credentials:\n    - token: x\n", "git.credentials[0].url is missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v, want one line with %q", err, c.want)
			}
			if _, usage := errors.AsType[UsageError](err); !usage {
				t.Errorf("%v does not end with exit code 2", err)
			}
		})
	}
	if _, err := LoadConfig("/no/such/file", os.Getenv); err == nil || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("a missing file: %v", err)
	}
	if c, err := load(t, ""); err != nil || len(c.Models) != 1 || !c.Telemetry.GhostMode || c.Machine.Image != "host" {
		t.Errorf("an empty file: %+v, %v", c, err)
	}
}

// The example configuration for newcomers is valid and complete.
func TestConfigExample(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aloft.yaml")
	if _, err := LoadConfig(file, noEnv); err == nil || !strings.Contains(err.Error(), "aloft serve --example > "+file) {
		t.Errorf("without a file: %v", err)
	}
	if err := os.WriteFile(file, []byte(ExampleConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	sudo := func(name string) string { return map[string]string{"SUDO_USER": "ann"}[name] }
	if _, err := LoadConfig(file, sudo); err == nil || !strings.Contains(err.Error(), "sudo -E") {
		t.Errorf("without the variables that sudo drops: %v", err)
	}
	c, err := LoadConfig(file, func(string) string { return "from the environment" })
	if err != nil || c.missing(file) != "" {
		t.Errorf("%v, %s", err, c.missing(file))
	}
	if _, err := c.Git.Hosts(); err != nil {
		t.Error(err)
	}
	// So are its optional parts about machines and images.
	optional := regexp.MustCompile(`(?m)^# (?:machine|images):\n(?:#  .*\n)+`).FindAllString(ExampleConfig, -1)
	text := regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(strings.Join(optional, ""), "")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = LoadConfig(file, func(string) string { return "from the environment" })
	if err != nil || c.Machine.Image != "ubuntu:24.04" || !c.Machine.Docker || len(c.Images.Credentials) != 1 || len(c.Images.Credentials[0].Machines) != 1 {
		t.Errorf("%s: %v", text, err)
	}
	for given, hint := range map[string]string{"": "--example > aloft.yaml", file: "in " + file} {
		if says := DefaultConfig().missing(given); strings.Count(says, "\n") != 3 || !strings.Contains(says, hint) {
			t.Errorf("without models and credentials: %s", says)
		}
	}
}

// Every key has a row in the reference, and every row describes a key.
func TestConfigReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/config.md")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		for f := range typ.Fields() {
			if f.Tag.Get("yaml") == "-" {
				continue
			}
			key := path + f.Tag.Get("yaml")
			switch f.Type.Kind() {
			case reflect.Struct:
				walk(f.Type, key+".")
			case reflect.Slice:
				if f.Type.Elem().Kind() == reflect.Struct {
					walk(f.Type.Elem(), key+"[].")
					continue
				}
				keys[key] = true
			default:
				keys[key] = true
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
	for key := range keys {
		if !strings.Contains(string(page), fmt.Sprintf("| `%s` |", key)) {
			t.Errorf("docs/reference/config.md has no row for %s", key)
		}
	}
	for line := range strings.Lines(string(page)) {
		if key, ok := strings.CutPrefix(line, "| `"); ok {
			if key, _, _ = strings.Cut(key, "`"); !keys[key] {
				t.Errorf("docs/reference/config.md has a row for %s, which is no key", key)
			}
		}
	}
}

func FuzzLoadConfig(f *testing.F) {
	f.Add("models:\n  - {id: a, provider: scripted}\n")
	f.Add("git: {credentials: [{url: x, token_env: KEY}]}")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := load(t, text); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
	})
}

// TestConfigKeysAreRead fails if no code of the server reads a configuration
// key. It searches for the field's name after a dot.
func TestConfigKeysAreRead(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob("gitserver/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, parts...)
	var code strings.Builder
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	seen, keys := map[reflect.Type]bool{}, 0
	var look func(reflect.Type)
	look = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array:
			look(of.Elem())
		case reflect.Struct:
			if seen[of] {
				return
			}
			seen[of] = true
			for field := range of.Fields() {
				if field.Tag.Get("yaml") == "" {
					continue
				}
				keys++
				if !regexp.MustCompile(`\.` + field.Name + `\b`).MatchString(code.String()) {
					t.Errorf("nothing reads %s of %s", field.Tag.Get("yaml"), of)
				}
				look(field.Type)
			}
		default:
		}
	}
	look(reflect.TypeFor[Config]())
	if keys < 50 {
		t.Errorf("looked at %d keys only", keys)
	}
}
