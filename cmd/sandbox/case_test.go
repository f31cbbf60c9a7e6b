package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/sandbox"
	"aloft/internal/need"
)

// TestCaseTricks uses a file system that ignores case without telling the
// kernel, like network shares of macOS or Windows. A mount on one spelling of a
// name does not cover other spellings, so no command may run unless the caller
// accepts that.
func TestCaseTricks(t *testing.T) {
	requireAll(t)
	need.Root(t)
	need.File(t, "fuse", "/dev/fuse")
	s := newScene(t, 0)
	image, mount := filepath.Join(s.base, "image"), filepath.Join(s.base, "any")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, argv := range [][]string{
		{need.Command(t, "mkntfs"), "-q", "-F", "-f", image},
		{need.Command(t, "lowntfs-3g"), "-o", "ignore_case,permissions", image, mount},
	} {
		if out, err := s.command(t.Context(), 0, "", argv...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", argv[0], err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for _, attempt := range []string{
		"echo pwned >> .GIT/CONFIG", "echo pwned >> .git/Config", "cat SECRET.TXT", ": > .CURSORIGNORE", "echo pwned > .CURSOR/sandbox.json", "echo pwned > .Git/Hooks/pre-commit",
	} {
		e := escape{name: attempt, attempt: attempt}
		if code, said := s.try(t, newSite(t, mount, 0), e, "", false); code != 0 {
			t.Errorf("%s: would not have worked without the sandbox: %s", attempt, said)
		}
		at := newSite(t, mount, 0)
		before := at.state(t)
		if code, said := s.try(t, at, e, "{}", true); code != sandbox.ExitUnenforceable || !strings.Contains(said, "its file system ignores case") {
			t.Errorf("%s: exit %d: %s", attempt, code, said)
		}
		if after := at.state(t); after != before {
			t.Errorf("%s: changed:\n%swas:\n%s", attempt, after, before)
		}
	}
	for dir, want := range map[string]bool{mount: true, s.base: false} {
		if got := sandbox.HostTree.Folds(dir); got != want {
			t.Errorf("%s takes names in any case: %v", dir, got)
		}
	}
}
