package build

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// scribe is a fake image builder that records its requests.
type scribe struct {
	spec  dockerfile.Spec
	files map[string]string
}

func (s *scribe) Ready() error    { return nil }
func (s *scribe) Has(string) bool { return true }
func (s *scribe) Build(_ context.Context, spec dockerfile.Spec, out func(string)) (string, error) {
	s.spec, s.files = spec, map[string]string{}
	out("it says s3cret-value")
	return "local:build/x", filepath.WalkDir(spec.Root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(spec.Root, path)
		data, err := os.ReadFile(path)
		s.files[rel] = string(data)
		return err
	})
}

// TestDockerfileOfPlan checks that an image is rebuilt exactly when an input of
// its Dockerfile changes.
func TestDockerfileOfPlan(t *testing.T) {
	b, git := planner(t)
	engine := &scribe{}
	b.Dockerfiles, b.Dir, b.Secrets = engine, t.TempDir(), map[string]string{"t": "s3cret-value"}
	files := map[string]string{
		".cursor/environment.json": `{"build": {"dockerfile": "Dockerfile", "context": ".."}}`,
		".cursor/Dockerfile":       "FROM scratch\nCOPY package.json lock /app/\n", "package.json": "1", "lock/a": "1", "main.go": "1",
	}
	url := git.Repo("r", files)
	plan := func(ref string) Plan {
		t.Helper()
		p, err := b.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, ref)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := plan("")
	if first.dockerfile == "" || first.noImage != nil {
		t.Fatalf("plan is %+v", first)
	}
	for name, c := range map[string]struct {
		path string
		text string
		same bool
	}{
		"Dockerfile": {".cursor/Dockerfile", "FROM scratch\nCOPY package.json lock /app/\nUSER a\n", false},
		"Copied":     {"package.json", "2", false},
		"InFolder":   {"lock/a", "2", false},
		"Ignore":     {".dockerignore", "lock", false},
		"NotCopied":  {"main.go", "2", true},
		"Whole":      {".cursor/Dockerfile", "FROM scratch\nCOPY . /app/\n", false},
	} {
		git.Commit("r", strings.ToLower(name), name, map[string]string{c.path: c.text})
		if p := plan(strings.ToLower(name)); (p.digest() == first.digest()) != c.same {
			t.Errorf("%s: the same: %v; want %v", name, p.digest() == first.digest(), c.same)
		}
	}
	heard := ""
	if name, err := b.imageNow(t.Context(), first, func(s string) { heard += s }); err != nil || name != "local:build/x" {
		t.Fatal(name, err)
	}
	if got := engine.files; !maps.Equal(got, files) || engine.spec.Context != "." || engine.spec.Dockerfile != ".cursor/Dockerfile" {
		t.Errorf("the engine got %q of %+v", got, engine.spec)
	}
	if heard == "" || strings.Contains(heard, "s3cret") {
		t.Errorf("heard %q", heard)
	}
	if left, err := filepath.Glob(filepath.Join(b.Dir, "context-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	// An existing image is not built again.
	engine.files = nil
	if _, err := b.imageNow(t.Context(), first, func(string) {}); err != nil || engine.files != nil {
		t.Errorf("it was made again: %v", err)
	}

	b.Dockerfiles = nil
	p := plan("")
	from, notes, err := b.baseOf(t.Context(), p)
	if err != nil || from.image != "host" || len(notes) != 1 || !strings.Contains(notes[0], "aloft doctor") || fault.Of(p.noImage).Code != "no_image_builder" {
		t.Errorf("without an engine: %+v, %q, %v", from, notes, err)
	}
	if p.digest() == first.digest() {
		t.Error("a build without the image counts as one with it")
	}
}
