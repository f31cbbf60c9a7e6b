package checkout

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hookFailed returns the output of the failed project hook that err contains.
func hookFailed(t *testing.T, err error) string {
	t.Helper()
	f, ok := errors.AsType[*Failure](err)
	if !ok || f.Code != CodeHookFailed {
		t.Fatalf("want a hook's refusal, got %v", err)
	}
	return f.Detail
}

// TestCommitHooks runs the project's own hooks, wherever its configuration puts
// them. Their refusals must be reported, and their changes must be committed.
func TestCommitHooks(t *testing.T) {
	s := newSite(t)
	s.Secret = "s3cr3t-credential"
	s.git("config", "core.hooksPath", ".husky")
	s.write(".husky/pre-commit", "#!/bin/sh\n[ ! -e bad.txt ] && exit 0\necho s3cr3t-credential\necho 'bad.txt:1: it is bad' >&2\nexit 1\n")
	s.write(".husky/commit-msg", "#!/bin/sh\necho 'Signed-off-by: hook' >> \"$1\"\n")
	s.write("bad.txt", "bad\n")
	head := s.git("rev-parse", "HEAD")
	_, err := s.Commit(t.Context(), "what is left", false)
	if said := hookFailed(t, err); !strings.Contains(said, "bad.txt:1: it is bad") || !strings.Contains(said, "exit status 1") || strings.Contains(said, s.Secret) {
		t.Errorf("the hook said %q", said)
	}
	if now := s.git("rev-parse", "HEAD"); now != head {
		t.Errorf("committed though the hook refused: %s", now)
	}
	s.remove("bad.txt")
	done, err := s.Commit(t.Context(), "what is left", false)
	if err != nil || !done.Made || done.Note != "" || !strings.HasSuffix(s.git("log", "-1", "--format=%B"), "Signed-off-by: hook") {
		t.Fatalf("%+v, %v", done, err)
	}

	s.write("bad.txt", "bad\n") // as a last resort
	if done, err = s.Commit(t.Context(), "what is left", true); err != nil || !done.Made || !strings.Contains(done.Note, "hooks rejected") {
		t.Errorf("%+v, %v", done, err)
	}
	if status := s.git("status", "--porcelain"); status != "" {
		t.Errorf("left: %s", status)
	}
}

// TestCommitHookThatFormats has a hook change a file that is already staged.
func TestCommitHookThatFormats(t *testing.T) {
	s := newSite(t)
	s.write(".git/hooks/pre-commit", "#!/bin/sh\necho formatted > a.txt\n")
	s.write("a.txt", "not formatted\n")
	done, err := s.Commit(t.Context(), "what is left", false)
	if err != nil || !done.Made || s.git("show", "HEAD:a.txt") != "formatted" || s.git("status", "--porcelain") != "" {
		t.Errorf("%+v, %v: %s", done, err, s.git("status", "--porcelain"))
	}
}

// TestHookThatDoesNotEnd checks that a hook that hangs is killed with all
// processes that it has started.
func TestHookThatDoesNotEnd(t *testing.T) {
	s := newSite(t)
	s.HookLimit = 500 * time.Millisecond
	s.write(".git/hooks/pre-commit", "#!/bin/sh\necho I wait\nsleep 600\n")
	s.write("a.txt", "two\n")
	_, err := s.Commit(t.Context(), "what is left", false)
	if said := hookFailed(t, err); !strings.Contains(said, "did not finish within 500ms") || !strings.Contains(said, "I wait") {
		t.Errorf("the hook said %q", said)
	}
	if done, err := s.Commit(t.Context(), "what is left", true); err != nil || !done.Made {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestHookThatSaysTooMuch checks that only the end of a hook's long output is
// kept.
func TestHookThatSaysTooMuch(t *testing.T) {
	s := newSite(t)
	s.write(".git/hooks/pre-commit", "#!/bin/sh\nyes 'a line that is long enough' | head -n 200000\necho the reason\nexit 1\n")
	s.write("a.txt", "two\n")
	_, err := s.Commit(t.Context(), "what is left", false)
	if said := hookFailed(t, err); len(said) > maxTail || !strings.Contains(said, "the reason") {
		t.Errorf("%d bytes: %.200q", len(said), said)
	}
}

// TestPushHook checks that the project's pre-push hook gets the input that git
// would give it.
func TestPushHook(t *testing.T) {
	s := newSite(t)
	told := filepath.Join(t.TempDir(), "told")
	s.write(".git/hooks/pre-push", "#!/bin/sh\n{ echo \"$1 $2\"; cat; } > "+told+"\necho 'tests fail'\n[ -e good.txt ]\n")
	head := s.git("rev-parse", "HEAD")
	_, err := s.Push(t.Context(), workBranch, false)
	if said := hookFailed(t, err); !strings.Contains(said, "tests fail") {
		t.Errorf("the hook said %q", said)
	}
	ref := "refs/heads/" + workBranch
	if got, err := os.ReadFile(told); err != nil || string(got) != "origin "+s.URL+"\n"+ref+" "+head+" "+ref+" "+strings.Repeat("0", 40)+"\n" {
		t.Errorf("the hook was told %q, %v", got, err)
	}
	if out := s.at(s.upstream, "branch", "--list", workBranch); out != "" {
		t.Errorf("pushed though the hook refused: %s", out)
	}
	pushed, err := s.Push(t.Context(), workBranch, true)
	if err != nil || pushed.Commit != head || !strings.Contains(pushed.Note, "pre-push hook rejected") {
		t.Errorf("%+v, %v", pushed, err)
	}
	s.write("good.txt", "good\n")
	s.git("add", "--all")
	s.git("commit", "--quiet", "-m", "good")
	pushed, err = s.Push(t.Context(), workBranch, false)
	if err != nil || pushed.Note != "" || s.at(s.upstream, "rev-parse", workBranch) != pushed.Commit {
		t.Errorf("%+v, %v", pushed, err)
	}
	if got := s.git("rev-parse", "origin/"+workBranch); got != pushed.Commit {
		t.Errorf("the clone believes the remote at %s", got)
	}
}

// TestHooksThatCannotBeFound checks that the report says that the hooks cannot
// be found if the clone's configuration is damaged.
func TestHooksThatCannotBeFound(t *testing.T) {
	s := newSite(t)
	s.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n")
	s.write(".git/config", "[core")
	s.write("a.txt", "two\n")
	done, err := s.Commit(t.Context(), "what is left", false)
	if err != nil || !done.Made || !strings.Contains(done.Note, "hooks were not run") || !strings.Contains(done.Note, "bad config") {
		t.Errorf("%+v, %v", done, err)
	}
}
