package secret

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aloft/internal/fault"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("A", MaxName)
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{"TOKEN", true}, {"_x", true}, {"a1", true}, {long, true}, {RoleVariable, true}, {"CURSOR_KEY", true}, {"NO_PROXY", true},
		{"HTTP_PROXY_URL", true},
		{"", false}, {"1A", false}, {"A-B", false}, {"A B", false}, {"A=B", false}, {"Ä", false}, {"A\n", false}, {long + "A", false},
		{"HTTP_PROXY", false}, {"https_proxy", false}, {"All_Proxy", false}, {"CURSOR_SANDBOX", false},
		{"cursor_sandbox_env_restore", false}, {"ALOFT_BOOT_ID", false},
		{NamesVariable, false}, {"CURSOR_AGENT_INJECTED_SECRET_NAMES", false},
	} {
		if err := CheckName(tt.name); (err == nil) != tt.ok || err != nil && !fault.Is(err, fault.KindInvalid) {
			t.Errorf("CheckName(%.40q) = %v", tt.name, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	ok := Secret{Name: "TOKEN", Type: Runtime, Repos: []string{"github.com/team/app"}}
	for _, tt := range []struct {
		name  string
		with  func(*Secret)
		value string
		want  string // expected error; "" for none
	}{
		{"right", func(*Secret) {}, "v", ""},
		{"every type", func(s *Secret) { s.Type = Build }, strings.Repeat("v", MaxValue), ""},
		{"unknown type", func(s *Secret) { s.Type = "password" }, "v", "type"},
		{"no type", func(s *Secret) { s.Type = "" }, "v", "type"},
		{"no value", func(*Secret) {}, "", "value"},
		{"long value", func(*Secret) {}, strings.Repeat("v", MaxValue+1), "value"},
		{"NUL", func(*Secret) {}, "a\x00b", "value"},
		{"bytes", func(*Secret) {}, "\xff\xfe", "value"},
		{"repository with scheme", func(s *Secret) { s.Repos = []string{"https://github.com/team/app"} }, "v", "repos"},
		{"no repository", func(s *Secret) { s.Repos = []string{""} }, "v", "repos"},
		{"many repositories", func(s *Secret) { s.Repos = slices.Repeat(s.Repos, MaxRepos+1) }, "v", "repos"},
		{"role", func(s *Secret) { s.Name = RoleVariable }, "arn:aws:iam::123456789012:role/a/agents", ""},
		{"role of China", func(s *Secret) { s.Name = RoleVariable }, "arn:aws-cn:iam::123456789012:role/agents", ""},
		{"no role", func(s *Secret) { s.Name = RoleVariable }, "arn:aws:iam::123456789012:user/ada", "value"},
	} {
		s := ok
		tt.with(&s)
		err := Check(s, tt.value)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || fault.Of(err).Field != tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && len(tt.value) > 3 && strings.Contains(err.Error(), tt.value) {
			t.Errorf("%s: the error tells the value", tt.name)
		}
	}
}

func TestEnvVars(t *testing.T) {
	many := map[string]string{}
	for i := range MaxEnvVars {
		many[fmt.Sprintf("V%d", i)] = strings.Repeat("x", MaxEnvVar)
	}
	if err := CheckEnvVars(many); err != nil {
		t.Error(err)
	}
	for name, vars := range map[string]map[string]string{
		"of Cursor": {"CURSOR_X": "v"}, "of Cursor, small": {"cursor_x": "v"}, "of Aloft": {"ALOFT_X": "v"}, "proxy": {"http_proxy": "v"},
		"role": {RoleVariable: "arn:aws:iam::123456789012:role/agents"}, "empty": {"A": ""}, "long": {"A": strings.Repeat("x", MaxEnvVar+1)},
		"case": {"Token": "v", "TOKEN": "w"}, "name": {"A B": "v"}, "NUL": {"A": "\x00"},
	} {
		err := CheckEnvVars(vars)
		if err == nil || !strings.HasPrefix(fault.Of(err).Field, "envVars.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	many["one_more"] = "v"
	if err := CheckEnvVars(many); err == nil {
		t.Error("51 variables are accepted")
	}
}

func TestRepo(t *testing.T) {
	for url, want := range map[string]string{
		"https://github.com/Team/App.git":       "github.com/team/app",
		"https://u:p@github.com/team/app/":      "github.com/team/app",
		"ssh://git@example.com:2222/team/app":   "example.com:2222/team/app",
		"git@github.com:team/app.git":           "github.com/team/app",
		"github.com/team/app":                   "github.com/team/app",
		"file:///srv/git/app.git":               "/srv/git/app",
		" https://gitlab.com/a/b/c.git.git/ \n": "gitlab.com/a/b/c",
	} {
		if got := Repo(url); got != want {
			t.Errorf("Repo(%q) = %q, want %q", url, got, want)
		}
	}
}

func FuzzRepo(f *testing.F) {
	f.Add("https://u@github.com/Team/App.git")
	f.Add("git@host:a/b")
	f.Fuzz(func(t *testing.T, url string) {
		once := Repo(url)
		if strings.Contains(url, "\x00") {
			return
		}
		// Repositories are compared in their stored form, so Repo must be
		// idempotent.
		if s := (Secret{Name: "A", Type: Runtime, Repos: []string{once}}); Check(s, "v") == nil && Repo(once) != once {
			t.Errorf("Repo(%q) = %q, and again %q", url, once, Repo(once))
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"A", "https_proxy", "CURSOR_SANDBOX_X", "a\x00", "ſ", "K"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) != nil {
			return
		}
		if strings.ContainsAny(name, "=\x00\n -,") || name == "" || len(name) > MaxName {
			t.Errorf("%q is accepted", name)
		}
		if strings.EqualFold(name, "http_proxy") || strings.EqualFold(name, NamesVariable) {
			t.Errorf("%q is accepted", name)
		}
	})
}

var kinds = []Kind{OfAgent, OfEnvironment, OfPerson, OfTeam}

// TestChoose compares Choose with a specification that considers one secret at
// a time.
func TestChoose(t *testing.T) {
	repos := []string{"h/a", "h/b"}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Sealed {
			return Sealed{Secret: Secret{
				ID: NewID(), Name: rapid.SampledFrom([]string{"A", "a", "B", "C"}).Draw(t, "name"),
				Type:  rapid.SampledFrom([]Type{Runtime, Variable, Build}).Draw(t, "type"),
				Repos: rapid.SliceOfN(rapid.SampledFrom([]string{"h/a", "h/b", "h/c"}), 0, 2).Draw(t, "repos"),
				Owner: Owner{Kind: rapid.SampledFrom(kinds).Draw(t, "owner")},
			}}
		})).Draw(t, "all")
		use := rapid.SampledFrom([]Use{ForAgent, ForBuild}).Draw(t, "use")
		chosen := Choose(all, use, repos)
		names := map[string]Sealed{}
		for _, c := range chosen {
			if _, twice := names[Fold(c.Name)]; twice {
				t.Fatalf("%s is chosen twice", c.Name)
			}
			names[Fold(c.Name)] = c
			if use == ForAgent && c.Type == Build {
				t.Fatal("an agent gets a build secret")
			}
			if use == ForBuild && (c.Owner.Kind == OfPerson || c.Owner.Kind == OfAgent) {
				t.Fatal("a build gets somebody's own secret")
			}
		}
		for _, s := range all {
			if !s.Applies(use, repos) {
				continue
			}
			c, ok := names[Fold(s.Name)]
			if !ok {
				t.Fatalf("%s of %s is left out", s.Name, s.Owner.Kind)
			}
			if slices.Index(kinds, s.Owner.Kind) < slices.Index(kinds, c.Owner.Kind) {
				t.Fatalf("%s of %s counts, and that of %s does not", c.Name, c.Owner.Kind, s.Owner.Kind)
			}
		}
		slices.Reverse(all)
		if again := Choose(all, use, repos); !slices.EqualFunc(chosen, again, func(a, b Sealed) bool { return a.ID == b.ID }) {
			t.Fatal("the order in which secrets are stored decides")
		}
	})
}

func TestScopes(t *testing.T) {
	s := Secret{Type: Runtime, Owner: TheTeam, Repos: []string{"github.com/team/app"}}
	if !s.Applies(ForAgent, []string{Repo("https://github.com/Team/app.git")}) {
		t.Error("its own repository's agent does not get it")
	}
	if s.Applies(ForAgent, []string{"github.com/team/other"}) || s.Applies(ForAgent, nil) {
		t.Error("another repository's agent gets it")
	}
	if (Secret{Type: Runtime, Owner: Owner{Kind: "nobody"}}).Applies(ForAgent, nil) {
		t.Error("a secret of an unknown kind of owner is given")
	}
}

func TestSet(t *testing.T) {
	var s Set
	s.Add("Token", "one", true)
	s.Add("MODE", "fast", false)
	s.Add("TOKEN", "two", true)
	s.Add("B", "three", true)
	if got := fmt.Sprint(s.Environ()); got != "map[B:three CLOUD_AGENT_INJECTED_SECRET_NAMES:B,TOKEN MODE:fast TOKEN:two]" {
		t.Error(got)
	}
	if got := fmt.Sprint(s.Values()); got != "map[B:three TOKEN:two]" {
		t.Error(got)
	}
	s.Kept = map[string]string{"C of another": "four"}
	if got := fmt.Sprint(s.Values(), len(s.Environ())); got != "map[B:three C of another:four TOKEN:two] 4" {
		t.Error(got)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	s.Add("BIG", strings.Repeat("x", MaxTotal), true)
	if err := s.Check(); !fault.Is(err, fault.KindExhausted) {
		t.Errorf("a set that is too large: %v", err)
	}
	if env := (Set{}).Environ(); env[NamesVariable] != "" || len(env) != 1 {
		t.Errorf("nothing is %v", env)
	}
}
