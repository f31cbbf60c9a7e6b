package gateway_test

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/fault"
)

// A commit of a fork is on no branch of the repository. Its change is the diff
// against the merge base with the base branch.
func TestChange(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"old.txt": "1\n2\n3\n4\n5\n6\n", "logo.png": "a\x00b"})
	base := w.Branch("r", "main")
	head := w.Commit("r", "fork", "change", map[string]string{"new.txt": "1\n2\n3\n4\n5\n7\n", "logo.png": "c\x00d"})
	gittest.Git(t, w.Path("r"), "update-ref", "refs/pull/7/head", head)
	gittest.Git(t, w.Path("r"), "update-ref", "-d", "refs/heads/fork")
	gittest.Git(t, w.Path("r"), "config", "uploadpack.allowAnySHA1InWant", "true")
	w.Commit("r", "main", "later", map[string]string{"later.txt": "x\n"})
	got, err := w.gw.Change(t.Context(), url, "refs/heads/main", head, 1<<20)
	text := string(got.Text)
	if err != nil || got.Base != base || !strings.Contains(text, "+++ b/new.txt\n") || !strings.Contains(text, "GIT binary patch") || strings.Contains(text, "later.txt") {
		t.Errorf("since %s, want %s: %q, %v", got.Base, base, text, err)
	}
	if got, err := w.gw.Change(t.Context(), url, head, head, 1<<20); err != nil || len(got.Text) != 0 || got.Base != head {
		t.Errorf("of nothing: %+v, %v", got, err)
	}
	orphan := gittest.Git(t, w.Path("r"), "commit-tree", "-m", "x", head+"^{tree}")
	gittest.Git(t, w.Path("r"), "update-ref", "refs/heads/orphan", orphan)
	for name, c := range map[string]struct {
		base, tip, want string
		max             int
	}{
		"TooLarge":  {"main", head, "diff_too_large", 100},
		"NoBase":    {"nope", head, "ref_not_found", 1 << 20},
		"NoTip":     {"main", strings.Repeat("1", 40), "ref_not_found", 1 << 20},
		"NotAnID":   {"main", "fork", "ref_not_found", 1 << 20},
		"Branch":    {"main", "orphan", "ref_not_found", 1 << 20},
		"Unrelated": {"main", orphan, "no_common_history", 1 << 20},
	} {
		if got, err := w.gw.Change(t.Context(), url, c.base, c.tip, c.max); fault.Of(err).Code != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
