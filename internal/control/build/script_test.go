package build

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestKeepScript(t *testing.T) {
	b, git := planner(t)
	b.Saved = openStore(t)
	of := func(name string, user int64) agent.Agent {
		return agent.Agent{ID: "bc-" + name, UserID: user, Options: agent.Options{Repos: []agent.Repo{{URL: git.URL + "/" + name + ".git"}}}}
	}
	repo := func(name, file string) string {
		files := map[string]string{"README": "x"}
		if file != "" {
			files[".cursor/environment.json"] = file
		}
		return git.Repo(name, files)
	}
	installs := func(a agent.Agent) string {
		t.Helper()
		p, err := b.Plan(t.Context(), a, "")
		if err != nil {
			t.Fatal(err)
		}
		return p.Environment.Install
	}
	for name, file := range map[string]string{
		"none": "", "allowed": `{"agentCanUpdateSnapshot": true, "start": "true"}`, "unsaid": `{"start": "true"}`, "snapshot": `{"snapshot": "POPULATED_FROM_SETTINGS"}`,
	} {
		repo(name, file)
		a := of(name, 1)
		first, err := b.KeepScript(t.Context(), a, "call-1", "make deps")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := installs(a); got != "make deps" {
			t.Errorf("%s: install is %q", name, got)
		}
		if got := installs(of(name, 2)); got != "" {
			t.Errorf("%s: another user installs by %q", name, got)
		}
		second, err := b.KeepScript(t.Context(), a, "call-2", "make more")
		if err != nil || second.ID != first.ID || second.VersionID == first.VersionID {
			t.Errorf("%s: then %+v, %v", name, second, err)
		}
		// If a call is repeated after a crash, the result is the same.
		again, err := b.KeepScript(t.Context(), a, "call-1", "make deps")
		if err != nil || again.VersionID != first.VersionID || installs(a) != "make more" {
			t.Errorf("%s: again %+v, %v, install is %q", name, again, err, installs(a))
		}
		if versions, err := b.Saved.EnvironmentHistory(t.Context(), first.ID, store.Page{Limit: 10}); err != nil || len(versions) != 2 {
			t.Errorf("%s: %d versions, %v", name, len(versions), err)
		}
	}
	// The repository's file takes precedence once it has an install command.
	git.Commit("unsaid", "main", "Say", map[string]string{".cursor/environment.json": `{"install": "by the file"}`})
	if got := installs(of("unsaid", 1)); got != "by the file" {
		t.Errorf("beside a file that installs: %q", got)
	}

	save := func(e environment.Saved) {
		t.Helper()
		e.VersionID, e.CreatedAt, e.UpdatedAt = environment.NewVersionID(), time.Now(), time.Now()
		if err := b.Saved.PutEnvironment(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	save(environment.Saved{ID: environment.NewID(), Team: true, UserID: 1, Repos: []string{repo("team", "")}, Text: "{}"})
	save(environment.Saved{ID: environment.NewID(), UserID: 1, Repos: []string{repo("shared", ""), repo("shared2", "")}, Text: "{}"})
	save(environment.Saved{ID: environment.NewID(), UserID: 1, Repos: []string{repo("spoilt", "")}, Text: "{}}"})
	for name, c := range map[string]struct{ file, code string }{
		"denied":     {`{"agentCanUpdateSnapshot": false}`, "agent_may_not_save"},
		"image":      {`{"image": "debian:12", "agentCanUpdateSnapshot": true}`, "agent_may_not_save"},
		"dockerfile": {`{"build": {"dockerfileContents": "FROM x"}}`, "agent_may_not_save"},
		"own":        {`{"install": "true"}`, "environment_in_repository"},
		"team":       {"", "environment_of_the_team"},
		"shared":     {"", "environment_shared"},
		"spoilt":     {"", "environment_unreadable"},
	} {
		if c.file != "" {
			repo(name, c.file)
		}
		was := installs(of(name, 1))
		_, err := b.KeepScript(t.Context(), of(name, 1), "call", "evil")
		if f := fault.Of(err); f.Code != c.code || f.Advice == "" {
			t.Errorf("%s: %v; want %s, and what to do", name, err, c.code)
		}
		if got := installs(of(name, 1)); got != was || strings.Contains(got, "evil") {
			t.Errorf("%s: install is %q afterwards", name, got)
		}
	}
	if _, err := b.KeepScript(t.Context(), agent.Agent{ID: "bc-x", UserID: 1}, "call", "x"); fault.Of(err).Code != "repository_required" {
		t.Errorf("without a repository: %v", err)
	}
}

// TestChosenEnvironment checks that an environment chosen at creation takes
// precedence over the repository's file, and that its builds and secrets are
// used.
func TestChosenEnvironment(t *testing.T) {
	b, git := planner(t)
	b.Saved = openStore(t)
	url := git.Repo("app", map[string]string{".cursor/environment.json": `{"install": "make own"}`, "go.mod": "1"})
	save := func(user int64, team bool, install string) environment.Saved {
		now := time.Now().UTC()
		e := environment.Saved{
			ID: environment.NewID(), UserID: user, Team: team, Name: install, Repos: []string{url}, Text: `{"install": "` + install + `"}`,
			VersionID: environment.NewVersionID(), CreatedAt: now, UpdatedAt: now,
		}
		if err := b.Saved.PutEnvironment(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	own, teams, others := save(1, false, "make mine"), save(2, true, "make ours"), save(2, false, "make theirs")
	a := agent.Agent{ID: "bc-1", UserID: 1, Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}
	for _, tt := range []struct{ id, install, environment, secrets string }{
		{"", "make own", environment.OfRepository(url), ""},
		{own.ID, "make mine", own.ID, own.ID},
		{teams.ID, "make ours", teams.ID, teams.ID},
	} {
		a.Env.ID = tt.id
		p, err := b.Plan(t.Context(), a, "")
		if err != nil || p.Environment.Install != tt.install || p.environmentID() != tt.environment || p.Inputs == "" {
			t.Errorf("with %q the plan is %+v, %v", tt.id, p, err)
		}
		if main, err := b.atDefault(t.Context(), p); err != nil || main.digest() != p.digest() || main.environmentID() != tt.environment {
			t.Errorf("with %q the build is of %+v, %v", tt.id, main, err)
		}
		if id, err := b.EnvironmentOf(t.Context(), a); err != nil || id != tt.secrets {
			t.Errorf("with %q the secrets are of %q, %v", tt.id, id, err)
		}
	}
	a.Env.ID = others.ID
	if p, err := b.Plan(t.Context(), a, ""); fault.Of(err).Code != "environment_not_found" {
		t.Errorf("an environment that is not theirs: %+v, %v", p, err)
	}
	if id, err := b.EnvironmentOf(t.Context(), a); fault.Of(err).Code != "environment_not_found" {
		t.Errorf("its secrets are of %q, %v", id, err)
	}
}

// An agent continues after its saved environment is deleted. It uses the
// content in its journal, or else behaves like an agent that names no
// environment. The environment gets no further builds, its builds are removed,
// and its secrets are deleted.
func TestDeletedEnvironment(t *testing.T) {
	b, git := planner(t)
	s := openStore(t)
	b.Saved, b.Journal = s, s
	url := git.Repo("app", map[string]string{".cursor/environment.json": `{"install": "make own"}`})
	for _, tt := range []struct{ text, install string }{
		{`{"install": "make mine"}`, "make mine"},
		{"", "make own"}, // the journal is older than the recording of contents
	} {
		head := int64(0)
		created := &agent.Created{UserID: 1, Env: agent.Env{Type: "cloud", ID: environment.NewID()}, EnvironmentText: tt.text, Repos: []agent.Repo{{URL: url}}}
		a := agent.Agent{ID: agent.NewID(), UserID: 1, Options: agent.Options{Env: created.Env, Repos: created.Repos}}
		if _, err := s.Append(t.Context(), store.Append{AgentID: a.ID, IfHead: &head, Events: []agent.Event{{Body: created}}}); err != nil {
			t.Fatal(err)
		}
		p, err := b.Plan(t.Context(), a, "")
		if err != nil || p.Environment.Install != tt.install || !strings.Contains(p.Gone, a.Env.ID) || p.Where == "" {
			t.Errorf("with %q the plan is %+v, %v", tt.text, p, err)
		}
		if id, err := b.EnvironmentOf(t.Context(), a); err != nil || id != "" {
			t.Errorf("with %q the secrets are of %q, %v", tt.text, id, err)
		}
		if _, err := b.KeepScript(t.Context(), a, "call", "make more"); err == nil {
			t.Errorf("with %q a script is kept that has no effect", tt.text)
		}
		if list, err := s.ListEnvironments(t.Context(), 1, store.Page{Limit: 10}); err != nil || len(list) != 0 {
			t.Errorf("with %q there are the environments %+v, %v", tt.text, list, err)
		}
	}
}
