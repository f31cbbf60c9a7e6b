package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"

	"aloft/internal/agent"
	"aloft/internal/control/artifact"
	"aloft/internal/control/disk"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image/registry"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/safe"
	"aloft/internal/control/store"
	"aloft/internal/policy"
)

// serverConfig is the file that `aloft serve --config` reads. The keys are
// documented in docs/reference/config.md, which a test holds to this type.
type serverConfig struct {
	PublicURL    string          `yaml:"public_url"` // where others find this server; http:// and the address it listens on unless given
	Store        string          `yaml:"store"`      // the address of a PostgreSQL database; a file in the data folder unless given
	Models       []modelConfig   `yaml:"models"`
	DefaultModel string          `yaml:"default_model"`
	FastModel    string          `yaml:"fast_model"`
	Git          gitConfig       `yaml:"git"`
	Machine      machineConfig   `yaml:"machine"`
	Artifacts    artifactsConfig `yaml:"artifacts"`
	Images       imagesConfig    `yaml:"images"`
	Telemetry    telemetryConfig `yaml:"telemetry"`
	Secrets      secretsConfig   `yaml:"secrets"`
	Preview      previewConfig   `yaml:"preview"`
	Policy       policyConfig    `yaml:"policy"`
	API          limitsConfig    `yaml:"api"`
	Limits       runLimits       `yaml:"limits"` // of each run
	SignIn       signInConfig    `yaml:"sign_in"`
	Outbound     egressConfig    `yaml:"outbound"` // what the server itself speaks to for users
	Environments buildsConfig    `yaml:"environments"`
}

// secretsConfig is how the secrets of machines are kept.
type secretsConfig struct {
	Keeper   string    `yaml:"keeper"`   // local (default) or the URL of a key management service
	Previous []string  `yaml:"previous"` // keepers that still open what they sealed
	AWS      awsConfig `yaml:"aws"`
}

// awsConfig is how machines' AWS roles are assumed.
type awsConfig struct {
	Region   string `yaml:"region"`   // of STS
	Endpoint string `yaml:"endpoint"` // of STS, where it is not AWS's own
	Profile  string `yaml:"profile"`  // of the AWS command line's files
}

// artifactsConfig is where files are kept that outlive machines.
type artifactsConfig struct {
	URL      string `yaml:"url"`       // s3://bucket?region=…, or file:///folder; artifacts in the data folder unless given
	MaxBytes int64  `yaml:"max_bytes"` // of one agent
}

// previewConfig is where browsers find what listens in machines.
type previewConfig struct {
	Domain string `yaml:"domain"` // previews are names below it; "" turns them off
	HTTPS  bool   `yaml:"https"`  // by a proxy that ends it
}

// modelConfig is one model that agents may use.
type modelConfig struct {
	ID            string       `yaml:"id"`             // what --model and the API's model.id name
	Provider      string       `yaml:"provider"`       // anthropic, openai, google, scripted
	API           string       `yaml:"api"`            // of openai: responses (default) or chat
	Name          string       `yaml:"name"`           // the provider's name of the model; the id unless given
	BaseURL       string       `yaml:"base_url"`       // another address than the provider's own
	APIKey        string       `yaml:"api_key"`        // the key itself
	APIKeyEnv     string       `yaml:"api_key_env"`    // or the variable that holds it
	Script        string       `yaml:"script"`         // of scripted: a file; the demonstration unless given
	ContextWindow int          `yaml:"context_window"` // tokens, where the model is not a known one
	MaxOutput     int          `yaml:"max_output"`     // tokens of one reply
	Price         *priceConfig `yaml:"price"`          // what it costs; unknown unless given
	Description   string       `yaml:"description"`    // for people who choose one

	Params         map[string]any      `yaml:"params"`          // values of parameters, unless a request sets others
	Offers         map[string][]string `yaml:"offers"`          // values that a request may set, by parameter; none takes the parameter away
	ThinkingBudget int                 `yaml:"thinking_budget"` // tokens, of Claude models that think with a budget
}

// gitConfig is how repositories are reached.
type gitConfig struct {
	Credentials []credentialConfig `yaml:"credentials"`
	AllowFile   bool               `yaml:"allow_file"` // let file:// URLs name repositories of this host
	// Dependencies are prefixes of URLs, as https://github.com/acme, of what
	// repositories may name as submodules and repositoryDependencies. Absent,
	// those of a repository's own owner; [] is none.
	Dependencies []string `yaml:"dependencies"`
	LFSHosts     []string `yaml:"lfs_hosts"` // may keep large files though they are on no public network
	AuthorName   string   `yaml:"author_name"`
	AuthorEmail  string   `yaml:"author_email"`
}

// credentialConfig is a credential for the repositories below a URL.
type credentialConfig struct {
	URL      string `yaml:"url"` // the longest that fits wins
	Username string `yaml:"username"`
	Token    string `yaml:"token"`
	TokenEnv string `yaml:"token_env"`
	// TokenFile holds the token; a path from the configuration's folder.
	TokenFile string `yaml:"token_file"`
	// Forge is which API the host speaks: github, gitlab, gitea (also Forgejo), none.
	Forge     string            `yaml:"forge"`
	API       string            `yaml:"api"`       // the address of that API, where it is not the usual one of the host
	Reviewers map[string]string `yaml:"reviewers"` // logins at the host, by people's e-mail addresses here
	// App is a GitHub App, which makes tokens of an hour in place of one that lasts.
	App appConfig `yaml:"app"`
}

// appConfig is a GitHub App.
type appConfig struct {
	ID      string `yaml:"id"`       // or its client id
	Key     string `yaml:"key"`      // the private key that GitHub made, PEM
	KeyEnv  string `yaml:"key_env"`  // or the variable that holds it
	KeyFile string `yaml:"key_file"` // or the file; a path from the configuration's folder
}

// machineConfig is what machines are made of.
type machineConfig struct {
	Image         string  `yaml:"image"`        // host (default), rootfs:DIR, oci:DIR, local:NAME, or a reference such as debian:12
	Runtime       string  `yaml:"runtime"`      // path of an OCI runtime; the one inside aloft unless given
	Strong        string  `yaml:"strong"`       // path of runsc
	Class         string  `yaml:"class"`        // strong: every agent runs under runsc
	Docker        bool    `yaml:"docker"`       // machines of class strong may run Docker
	MemoryBytes   int64   `yaml:"memory_bytes"` // of each machine; 0 is no limit
	CPUs          float64 `yaml:"cpus"`
	PIDs          int64   `yaml:"pids"`
	DiskBytes     int64   `yaml:"disk_bytes"`     // of each machine, also of builds, measured; 0 is no limit but the disk
	IdleMinutes   float64 `yaml:"idle_minutes"`   // nobody uses a machine for so long: it sleeps; 30 unless given, 0 is never
	Sleep         string  `yaml:"sleep"`          // live (default): with its processes, where its class can; disk: without, so that no memory lies on the disk
	RetentionDays float64 `yaml:"retention_days"` // nobody uses a machine for so long: it is removed with its disk, sooner where the team has settled so; 30 unless given, 0 is never

	Egress egressConfig `yaml:"egress"`
}

// retention is how long a machine that nobody uses is kept; 0 is for ever.
func (c machineConfig) retention() time.Duration {
	return time.Duration(c.RetentionDays * 24 * float64(time.Hour))
}

// retentionOf is the same as the team has settled it for an agent.
func retentionOf(rules store.Rules, most time.Duration) func(context.Context, agent.Agent) (time.Duration, error) {
	return func(ctx context.Context, a agent.Agent) (time.Duration, error) {
		h, err := store.Settings(ctx, rules)
		return h.At(a.CreatedAt).KeepMachines(most), err
	}
}

// imagesConfig is how images are come by.
type imagesConfig struct {
	Credentials  []registryConfig `yaml:"credentials"`
	Insecure     []string         `yaml:"insecure"`      // hosts, with their ports, without TLS
	Recheck      string           `yaml:"recheck"`       // how long a tag is not asked for again: 1h
	Unused       string           `yaml:"unused"`        // how long an image is kept that no machine is made of: 168h; an hour while the disk is nearly full
	Builder      string           `yaml:"builder"`       // auto (default), buildkit, buildah, docker
	BuilderAt    string           `yaml:"builder_at"`    // address of a BuildKit or Docker daemon
	BuildNetwork string           `yaml:"build_network"` // of RUN and ADD: machine (default), host or none
}

// registryConfig is a credential for one registry.
type registryConfig struct {
	Host     string `yaml:"host"`
	Username string `yaml:"username"`
	Token    string `yaml:"token"`
	TokenEnv string `yaml:"token_env"`
}

// registry is how registries are spoken to.
func (c imagesConfig) registry() registry.Config {
	out := registry.Config{Insecure: c.Insecure, Credentials: map[string]registry.Credential{}}
	for _, r := range c.Credentials {
		out.Credentials[r.Host] = registry.Credential{Username: r.Username, Token: r.Token}
	}
	return out
}

// recheck is the duration of the key, which check has read before.
func (c imagesConfig) recheck() time.Duration {
	d, _ := time.ParseDuration(c.Recheck)
	return d
}

func (c *imagesConfig) check(getenv func(string) string) error {
	seen := map[string]bool{}
	for i := range c.Credentials {
		r := &c.Credentials[i]
		at := fmt.Sprintf("images.credentials[%d]", i)
		if r.Host == "" || strings.Contains(r.Host, "/") {
			return fmt.Errorf("%s.host: %q is no host: it is as in ghcr.io or registry.example.com:5000", at, r.Host)
		}
		if seen[r.Host] {
			return fmt.Errorf("%s.host: %q stands twice", at, r.Host)
		}
		seen[r.Host] = true
		if err := fromEnv(&r.Token, r.TokenEnv, at+".token", getenv); err != nil {
			return err
		}
	}
	if d, err := time.ParseDuration(c.Recheck); err != nil || d < 0 {
		return fmt.Errorf("images.recheck: %q is no duration: it is as in 1h, or 0s for every time", c.Recheck)
	}
	if d, err := time.ParseDuration(c.Unused); err != nil || d < 0 {
		return fmt.Errorf("images.unused: %q is no duration: it is as in 168h, or 0s for ever", c.Unused)
	}
	switch c.Builder {
	case "auto", "buildkit", "buildah", "docker":
	default:
		return fmt.Errorf("images.builder: %q is none of auto, buildkit, buildah, docker", c.Builder)
	}
	switch c.BuildNetwork {
	case dockerfile.Machine, dockerfile.Host, dockerfile.None:
	default:
		return fmt.Errorf("images.build_network: %q is none of machine, host, none", c.BuildNetwork)
	}
	return nil
}

// egressConfig is what machines may reach.
type egressConfig struct {
	Mode  string   `yaml:"mode"`  // allow_all (default), list, none, off
	Allow []string `yaml:"allow"` // domains, *.domains, addresses, ranges
	Deny  []string `yaml:"deny"`  // wins over allow
	Open  []string `yaml:"open"`  // addresses and ranges that are blocked otherwise
}

// egressOff is the mode without a network device at all.
const egressOff = "off"

// network is the policy of machines; its zero value is no network.
func (c egressConfig) network() policy.Network {
	if c.Mode == egressOff {
		return policy.Network{}
	}
	return policy.Network{Mode: cmp.Or(policy.Mode(c.Mode), policy.AllowAll), Allow: c.Allow, Deny: c.Deny, Open: c.Open}
}

// telemetryConfig is where traces, metrics and logs are sent.
type telemetryConfig struct {
	Endpoint  string `yaml:"endpoint"`   // https://host:4317 of an OTLP receiver (gRPC)
	Token     string `yaml:"token"`      // of the receiver
	TokenEnv  string `yaml:"token_env"`  // or the variable that holds it
	Insecure  bool   `yaml:"insecure"`   // without TLS
	GhostMode bool   `yaml:"ghost_mode"` // send nothing, whatever else is said
}

// defaultConfig is a server without a file: the scripted model, which needs no
// key and says what it is.
func defaultConfig() serverConfig {
	return serverConfig{
		Models:    []modelConfig{{ID: "scripted", Provider: "scripted"}},
		Git:       gitConfig{AuthorName: "Aloft", AuthorEmail: "aloft@localhost"},
		Machine:   machineConfig{Image: "host", PIDs: 4096, MemoryBytes: container.DefaultMemory(), DiskBytes: disk.Half, IdleMinutes: 30, RetentionDays: 30},
		Artifacts: artifactsConfig{MaxBytes: artifact.DefaultLimits.Size},
		Images:    imagesConfig{Recheck: "1h", Unused: "168h", Builder: "auto", BuildNetwork: dockerfile.Machine},
		Environments: buildsConfig{StaleAfter: "24h", InstallLimit: "1h", StartLimit: "2m", WatchEvery: "15m", RebuildEvery: "24h",
			KeepBuilds: 2, KeepFor: "720h", SnapshotFor: "0s", WreckFor: "24h", WreckBytes: 10 << 30},
		API:       limitsConfig{RequestsPerMinute: 6000},
		Telemetry: telemetryConfig{GhostMode: true},
		Secrets:   secretsConfig{Keeper: safe.LocalKeeper},
		Preview:   previewConfig{Domain: "preview.localhost"},
	}
}

// usageError is a mistake in how the program was called; its exit status is 2.
type usageError struct{ error }

// loadConfig reads the file at path; "" is the default configuration. Every
// mistake is one line that begins with the file and the line.
func loadConfig(path string, getenv func(string) string) (serverConfig, error) {
	c := defaultConfig()
	if path == "" {
		return c, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = fmt.Errorf("there is no %s: `aloft serve --example > %[1]s` writes one to fill in", path)
		}
		return c, usageError{fmt.Errorf("read the configuration: %w", err)}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // as editors of Windows write it
	c.Models = nil
	// An empty document would set everything to nothing.
	if strings.TrimSpace(string(data)) != "" {
		if err := yaml.UnmarshalWithOptions(data, &c, yaml.Strict()); err != nil {
			return c, usageError{yamlError(path, err)}
		}
	}
	if len(c.Models) == 0 {
		c.Models = defaultConfig().Models
	}
	if err := c.check(filepath.Dir(path), getenv); err != nil {
		return c, usageError{fmt.Errorf("%s: %w", path, err)}
	}
	return c, nil
}

// yamlError makes one line of a decoder's error.
func yamlError(path string, err error) error {
	y, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return fmt.Errorf("%s: %w", path, err)
	}
	line := 1
	if t := y.GetToken(); t != nil {
		line = t.Position.Line
	}
	message, _, _ := strings.Cut(strings.ReplaceAll(y.GetMessage(), "unknown field", "unknown key"), "\n")
	return fmt.Errorf("%s:%d: %s", path, line, message)
}

// check finds what YAML's types do not, and reads the variables that hold secrets.
func (c *serverConfig) check(dir string, getenv func(string) string) error {
	seen := map[string]bool{}
	for i := range c.Models {
		m := &c.Models[i]
		at := fmt.Sprintf("models[%d]", i)
		if m.ID == "" {
			return fmt.Errorf("%s.id is missing: it is the name that --model takes", at)
		}
		if seen[m.ID] {
			return fmt.Errorf("%s.id: %q stands twice", at, m.ID)
		}
		seen[m.ID] = true
		if m.Name == "" {
			m.Name = m.ID
		}
		switch m.Provider {
		case "anthropic", "openai", "google", "scripted":
		case "":
			return fmt.Errorf("%s.provider is missing: anthropic, openai, google or scripted", at)
		default:
			return fmt.Errorf("%s.provider: %q is none of anthropic, openai, google, scripted", at, m.Provider)
		}
		switch m.API {
		case "", "responses", "chat":
		default:
			return fmt.Errorf("%s.api: %q is neither responses nor chat", at, m.API)
		}
		if strings.ContainsAny(m.ID, "[]") {
			return fmt.Errorf("%s.id: %q has brackets, which hold parameters where a model is named", at, m.ID)
		}
		if err := m.checkParams(at); err != nil {
			return err
		}
		if err := m.Price.check(); err != nil {
			return fmt.Errorf("%s.%w", at, err)
		}
		if err := fromEnv(&m.APIKey, m.APIKeyEnv, at+".api_key", getenv); err != nil {
			return err
		}
		if m.Script != "" && !filepath.IsAbs(m.Script) {
			m.Script = filepath.Join(dir, m.Script)
		}
	}
	if c.Machine.DiskBytes < 0 && c.Machine.DiskBytes != disk.Half {
		return fmt.Errorf("machine.disk_bytes: %d is less than nothing: give bytes, or 0 for no limit", c.Machine.DiskBytes)
	}
	if c.DefaultModel != "" && !seen[c.DefaultModel] {
		return fmt.Errorf("default_model: %q is not the id of a model", c.DefaultModel)
	}
	if c.FastModel != "" && !seen[c.FastModel] {
		return fmt.Errorf("fast_model: %q is not the id of a model", c.FastModel)
	}
	for i := range c.Git.Credentials {
		cred := &c.Git.Credentials[i]
		at := fmt.Sprintf("git.credentials[%d]", i)
		if cred.URL == "" {
			return fmt.Errorf("%s.url is missing", at)
		}
		if err := fromEnv(&cred.Token, cred.TokenEnv, at+".token", getenv); err != nil {
			return err
		}
		if err := fromFile(&cred.Token, dir, cred.TokenFile, at+".token"); err != nil {
			return err
		}
		if err := cred.checkApp(dir, at, getenv); err != nil {
			return err
		}
	}
	if _, err := gitCredentials(c.Git); err != nil {
		return err
	}
	if u, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "") {
		return fmt.Errorf("public_url: %q is no address as https://aloft.example.com", c.PublicURL)
	}
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	if err := fromEnv(&c.Telemetry.Token, c.Telemetry.TokenEnv, "telemetry.token", getenv); err != nil {
		return err
	}
	if c.Artifacts.MaxBytes < 0 {
		return errors.New("artifacts.max_bytes: it is negative")
	}
	if err := c.Images.check(getenv); err != nil {
		return err
	}
	if err := c.Policy.check(seen); err != nil {
		return err
	}
	if err := c.Environments.check(); err != nil {
		return err
	}
	if err := c.Limits.check(c.Models); err != nil {
		return err
	}
	if c.Machine.IdleMinutes < 0 || c.Machine.RetentionDays < 0 {
		return errors.New("machine.idle_minutes, machine.retention_days: less than nothing: give a time, or 0 for never")
	}
	switch c.Machine.Sleep {
	case "", "live", "disk":
	default:
		return fmt.Errorf("machine.sleep: %q is neither live nor disk", c.Machine.Sleep)
	}
	switch c.Machine.Class {
	case "", "strong":
	default:
		return fmt.Errorf("machine.class: %q is not strong", c.Machine.Class)
	}
	if _, err := c.Machine.Egress.network().Compile(); err != nil {
		return fmt.Errorf("machine.egress: %w", err)
	}
	if err := c.SignIn.check(getenv); err != nil {
		return err
	}
	if c.API.RequestsPerMinute < 0 {
		return errors.New("api.requests_per_minute: it is negative: 0 is no limit")
	}
	if c.Outbound.Mode == egressOff {
		return errors.New("outbound.mode: it is allow_all, list or none")
	}
	if _, err := c.Outbound.network().Compile(); err != nil {
		return fmt.Errorf("outbound: %w", err)
	}
	if c.Machine.Docker && c.Machine.Strong == "" {
		return errors.New("machine.docker: Docker runs in machines of gVisor only: give machine.strong the path of runsc")
	}
	return nil
}

// secrets are the values that the file or its variables give, by their places in
// it: what must never come out of a machine.
func (c *serverConfig) secrets() map[string]string {
	secrets := map[string]string{}
	add := func(at, value string) {
		if value != "" {
			secrets[at] = value
		}
	}
	for i, m := range c.Models {
		add(fmt.Sprintf("models[%d].api_key", i), m.APIKey)
	}
	for i, cred := range c.Git.Credentials {
		add(fmt.Sprintf("git.credentials[%d].token", i), cred.Token)
		add(fmt.Sprintf("git.credentials[%d].app.key", i), cred.App.Key)
	}
	for i, r := range c.Images.Credentials {
		add(fmt.Sprintf("images.credentials[%d].token", i), r.Token)
	}
	if store, err := pgx.ParseConfig(c.Store); c.Store != "" && err == nil {
		add("store", store.Password)
	}
	add("telemetry.token", c.Telemetry.Token)
	add("sign_in.oidc.client_secret", c.SignIn.OIDC.ClientSecret)
	return secrets
}
