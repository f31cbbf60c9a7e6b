package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/file"
)

// hiddenTree creates a workspace that contains .cursorignore files and links.
func hiddenTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		".cursorignore":   "*.key\nsecret/\n",
		"b/.cursorignore": "!open.key\nnotes\n",
		"a.key":           "", "b/open.key": "", "b/other.key": "", "b/notes": "", "notes": "",
		"c/.cursorignore": "only\n",
		"c/only":          "", "c/notes": "", "c/open.key": "",
		"secret/.cursorignore": "!plain\n",
		"secret/plain":         "",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": "a.key", "folder": "secret", "here": ".", "chain": "here/link"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestUnseen(t *testing.T) {
	dir := hiddenTree(t)
	other := filepath.Join(t.TempDir(), "way")
	if err := os.Symlink(dir, other); err != nil {
		t.Fatal(err)
	}
	u := file.NewUnseen(dir)
	for name, hidden := range map[string]bool{
		"a.key": true, "A.KEY": false, "notes": false, "new.key": true,
		"b/open.key": false, "b/other.key": true, "b/notes": true, "b/new/notes": true,
		"c/only": true, "c/notes": false, "c/open.key": true,
		"secret": true, "secret/plain": true, "secret/new/file": true,
		"link": true, "chain": true, "here/here/a.key": true, "here/notes": false,
		"folder": true, "folder/plain": true, "folder/new": true,
		".": false, "here": false, "b": false,
	} {
		for _, base := range []string{dir, other} {
			err := u.Check(filepath.Join(base, name))
			if (err != nil) != hidden {
				t.Errorf("%s of %s: %v, want hidden %v", name, base, err, hidden)
			}
			if err != nil && !strings.HasSuffix(err.Error(), "cannot be accessed: .cursorignore hides it") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := u.Check(filepath.Join(t.TempDir(), "a.key")); err != nil {
		t.Errorf("outside of the workspace: %v", err)
	}
	if by := u.Covers("secret/deep/er", false); by != "secret" {
		t.Errorf("secret/deep/er is hidden by %q", by)
	}
	if err := os.Remove(filepath.Join(dir, ".cursorignore")); err != nil {
		t.Fatal(err)
	}
	if err := file.NewUnseen(dir).Check(filepath.Join(dir, "a.key")); err != nil {
		t.Errorf("after the file has gone: %v", err)
	}
}

// TestUnseenWorkspaceByLink uses a workspace whose path is a symbolic link.
func TestUnseenWorkspaceByLink(t *testing.T) {
	dir := hiddenTree(t)
	way := filepath.Join(t.TempDir(), "way")
	if err := os.Symlink(dir, way); err != nil {
		t.Fatal(err)
	}
	u := file.NewUnseen(way)
	for _, name := range []string{way + "/a.key", dir + "/a.key", way + "/link", dir + "/folder/plain"} {
		if u.Check(name) == nil {
			t.Errorf("%s is not hidden", name)
		}
	}
	if err := u.Check(way + "/notes"); err != nil {
		t.Error(err)
	}
}
