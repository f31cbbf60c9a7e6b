package changes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/guest/changes"
	"aloft/internal/guest/file"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// TestDiff compares a working tree with a commit. New files must be in the
// diff; files that git ignores or .cursorignore hides must not. The index must
// not change.
func TestDiff(t *testing.T) {
	dir := t.TempDir()
	if err := changes.Diff(t.Context(), dir, "", new(changes.Head), nil); !fault.Is(err, fault.KindConflict) {
		t.Errorf("without a repository: %v", err)
	}
	git(t, dir, "init", "-q")
	for name, text := range map[string]string{".gitignore": "out\n", ".cursorignore": "*.key\n", "new": "new\n", "out": "out\n", "a.key": "key\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git(t, dir, "add", ".gitignore")
	before, err := os.ReadFile(filepath.Join(dir, ".git/index"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		unseen *file.Unseen
		key    bool
	}{{nil, true}, {file.NewUnseen(dir), false}} {
		out := changes.Head{Limit: 1 << 20}
		if err := changes.Diff(t.Context(), dir, "", &out, c.unseen); err != nil {
			t.Fatal(err)
		}
		if text := string(out.Text); !strings.Contains(text, "+new\n") || strings.Contains(text, "b/out") || strings.Contains(text, "b/a.key") != c.key {
			t.Errorf("with unseen files %v: %s", !c.key, text)
		}
	}
	if after, err := os.ReadFile(filepath.Join(dir, ".git/index")); err != nil || string(after) != string(before) {
		t.Errorf("the index was changed, %v", err)
	}
	if err := changes.Diff(t.Context(), dir, "none", new(changes.Head), nil); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("a commit that does not exist: %v", err)
	}
}

func TestHead(t *testing.T) {
	h := changes.Head{Limit: 5}
	for _, s := range []string{"abc", "de", "f"} {
		if n, err := h.Write([]byte(s)); n != len(s) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if string(h.Text) != "abcde" || !h.More {
		t.Errorf("%q, more: %v", h.Text, h.More)
	}
}
