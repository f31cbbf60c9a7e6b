package build

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/environment"
)

// planner returns a Builder with a real mirror of a real repository.
func planner(t *testing.T) (*Builder, *gittest.Server) {
	t.Helper()
	g, err := gateway.New(gateway.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(Config{Files: g, Image: "host"}), gittest.New(t)
}

func TestPlan(t *testing.T) {
	b, git := planner(t)
	url := git.Repo("r", map[string]string{
		".cursor/environment.json": `{"install": "./scripts/setup.sh && npm ci"}`, "package-lock.json": "1", "scripts/setup.sh": "1", "main.go": "1",
		"apps/web/pnpm-lock.yaml": "1", "vendor/x/go.mod": "1", "web/node_modules/y/package.json": "1", "z/testdata/go.sum": "1",
	})
	plan := func(ref string) Plan {
		t.Helper()
		p, err := b.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, ref)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := plan("")
	if first.Environment.Install != "./scripts/setup.sh && npm ci" || !strings.HasPrefix(first.Where, ".cursor/environment.json at ") || first.Commit == "" {
		t.Errorf("plan is %+v", first)
	}
	for name, c := range map[string]struct {
		files map[string]string
		same  bool
	}{
		"LockFile":        {map[string]string{"package-lock.json": "2"}, false},
		"NestedLockFile":  {map[string]string{"apps/web/pnpm-lock.yaml": "2"}, false},
		"NewManifest":     {map[string]string{"libs/a/b/go.mod": "1"}, false},
		"Dependencies":    {map[string]string{"vendor/x/go.mod": "2", "web/node_modules/y/package.json": "2", "z/testdata/go.sum": "2"}, true},
		"FileOfInstall":   {map[string]string{"scripts/setup.sh": "2"}, false},
		"FileOfNoInstall": {map[string]string{"main.go": "2"}, true},
	} {
		git.Commit("r", strings.ToLower(name), name, c.files)
		if p := plan(strings.ToLower(name)); (p.Inputs == first.Inputs) != c.same || p.Commit == first.Commit {
			t.Errorf("%s: same inputs: %v; want %v", name, p.Inputs == first.Inputs, c.same)
		}
	}
	git.Commit("r", "aloft", "Prefer ours", map[string]string{".aloft/environment.json": `{"install": "make"}`})
	if p := plan("aloft"); p.Environment.Install != "make" {
		t.Errorf("install is %q; want that of .aloft", p.Environment.Install)
	}
	git.Commit("r", "broken", "Break it", map[string]string{".cursor/environment.json": `{`})
	if p := plan("broken"); p.Environment.Install != "" || len(p.Findings) != 1 {
		t.Errorf("a file that is none: %+v", p)
	}
	if p, err := b.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: git.Empty("empty")}}}}, ""); err != nil || p.Where != "" || p.Commit != "" {
		t.Errorf("an empty repository: %+v, %v", p, err)
	}
	if p, err := b.Plan(t.Context(), agent.Agent{}, ""); err != nil || p.Where != "" {
		t.Errorf("no repository: %+v, %v", p, err)
	}
}

// TestLinkedEnvironment checks that an environment file that is a symbolic link
// is reported and not followed.
func TestLinkedEnvironment(t *testing.T) {
	b, git := planner(t)
	url := git.Repo("r", map[string]string{"ci/environment.json": `{"install": "make"}`})
	for name, c := range map[string]struct{ link, to, install string }{
		"file":   {".cursor/environment.json", "../ci/environment.json", ""},
		"folder": {".aloft", "ci", ""},
		"beside": {".aloft/environment.json", "/etc/passwd", "make all"},
	} {
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			gittest.Git(t, work, "clone", "--quiet", git.Path("r"), ".")
			if c.install != "" {
				gittest.Write(t, work, map[string]string{".cursor/environment.json": `{"install": "` + c.install + `"}`})
			}
			at := filepath.Join(work, c.link)
			if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(c.to, at)); err != nil {
				t.Fatal(err)
			}
			gittest.Git(t, work, "add", "--all")
			gittest.Git(t, work, "commit", "--quiet", "-m", name)
			gittest.Git(t, work, "push", "--quiet", "origin", "HEAD:"+name)
			p, err := b.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, name)
			if err != nil || len(p.Findings) != 1 || p.Findings[0].File != c.link || p.Findings.Worst() != environment.Error {
				t.Fatalf("findings %v, %v", p.Findings, err)
			}
			if p.Where == "" || p.Environment.Install != c.install {
				t.Errorf("plan is %+v", p)
			}
		})
	}
}

func TestInputsStayInTheRepository(t *testing.T) {
	got := inputs("cd /etc && cat ../../x ./a/../b \"c\"; ./.cursor/install.sh>log -r req.txt --file=d.lock "+strings.Repeat("w ", 1000), "/workspace")
	for _, want := range []string{"b", "c", ".cursor/install.sh", "req.txt", "d.lock"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is no input", want)
		}
	}
	for _, p := range got {
		if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "..") {
			t.Errorf("%s is outside of the repository", p)
		}
	}
	if len(got) > maxInputs {
		t.Errorf("%d inputs", len(got))
	}
}

func TestPorts(t *testing.T) {
	b, git := planner(t)
	url := git.Repo("r", map[string]string{".aloft/environment.json": `{"ports": [{"port": 3000, "name": "web"}, 5432, 3000, 70000]}`})
	a := agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}
	first, err := b.Plan(t.Context(), a, "")
	if err != nil {
		t.Fatal(err)
	}
	git.Commit("r", "main", "Another", map[string]string{".aloft/environment.json": `{"ports": [1]}`})
	for origin, want := range map[string][]environment.Port{"": nil, first.Commit: {{Port: 3000, Name: "web"}, {Port: 5432}}} {
		a.Origin = origin
		if got, err := b.Ports(t.Context(), a); err != nil || !slices.Equal(got, want) {
			t.Errorf("at %q: %v, %v; want %v", origin, got, err, want)
		}
	}
	if got, err := b.Ports(t.Context(), agent.Agent{}); err != nil || len(got) > 0 {
		t.Errorf("without a repository: %v, %v", got, err)
	}
}
