package gateway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

func TestFile(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{".cursor/permissions.json": "{}", "[a]": "brackets", "big": strings.Repeat("x", 2<<20)})
	first := w.Branch("r", "main")
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	w.Commit("r", "main", "second", map[string]string{".cursor/permissions.json": `{"terminalAllowlist":["rm"]}`})
	get := func(path string) (string, bool) {
		t.Helper()
		data, err := w.gw.File(t.Context(), url, first, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		return string(data), data != nil
	}
	if got, ok := get(".cursor/permissions.json"); got != "{}" || !ok {
		t.Errorf("got %q: not as the first commit has it", got)
	}
	if got, _ := get("[a]"); got != "brackets" {
		t.Errorf("got %q", got)
	}
	for _, path := range []string{".cursor", "not-there", "a", ".cursor/permissions.json/x"} {
		if got, ok := get(path); ok {
			t.Errorf("%s is %q", path, got)
		}
	}
	for _, path := range []string{"../x", "/etc/passwd", "", "a//b", "big"} {
		if _, err := w.gw.File(t.Context(), url, first, path); err == nil {
			t.Errorf("%q was read", path)
		}
	}
	if _, err := w.gw.File(t.Context(), url, "main", "big"); err == nil {
		t.Error("a branch is taken for a commit")
	}
}

// TestFileIsNoLink checks that symbolic links in a repository are not followed.
func TestFileIsNoLink(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a": "a"})
	dir := t.TempDir()
	gittest.Git(t, dir, "clone", "-q", w.Path("r"), "c")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "c", "link")); err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(dir, "c")
	gittest.Git(t, clone, "add", "link")
	gittest.Git(t, clone, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "link")
	gittest.Git(t, clone, "push", "-q", "origin", "HEAD:main")
	if _, err := w.gw.Check(t.Context(), url, ""); err != nil {
		t.Fatal(err)
	}
	if data, err := w.gw.File(t.Context(), url, w.Branch("r", "main"), "link"); err != nil || data != nil {
		t.Errorf("a link is %q, %v", data, err)
	}
}
