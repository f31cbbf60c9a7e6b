package lsp

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"aloft/internal/need"
)

func gitIn(t testing.TB, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-euc", "git config user.email a@b; git config user.name n; "+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

func TestChanged(t *testing.T) {
	need.Command(t, "git")
	need.Command(t, "rg")
	dir := tree(t, "-- .gitignore --\nignored\n-- kept --\n1\n-- edited --\n1\n-- committed --\n1\n-- deleted --\n1\n")
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "state", "mark")
	check := func(m mark, want ...string) {
		t.Helper()
		got, err := m.changed(t.Context(), "rg", dir, os.Environ())
		if err != nil {
			t.Fatal(err)
		}
		for i, path := range got {
			got[i], _ = filepath.Rel(dir, path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("changed are %q, want %q", got, want)
		}
	}
	// Before the first commit, all files are new.
	check(readMark(t.Context(), "", dir, os.Environ()), ".gitignore", "committed", "deleted", "edited", "kept")
	gitIn(t, dir, "git add .; git commit -qm one")
	m := readMark(t.Context(), file, dir, os.Environ())
	check(m)
	write(t, filepath.Join(dir, "committed"), "2\n")
	gitIn(t, dir, "git commit -qam two")
	for _, name := range []string{"edited", "new ä", "ignored"} {
		write(t, filepath.Join(dir, name), "2\n")
	}
	gitIn(t, dir, "rm deleted")
	check(m, "committed", "deleted", "edited", "new ä")
	// The mark is the same after a restart.
	if again := readMark(t.Context(), file, dir, os.Environ()); again.Head != m.Head {
		t.Errorf("the mark moved from %v to %v", m, again)
	}
	// If git does not know the commit in the mark, the current commit is used.
	check(mark{Head: "0123456789012345678901234567890123456789", Time: m.Time}, "deleted", "edited", "new ä")
}

func TestChangedWithoutGit(t *testing.T) {
	need.Command(t, "rg")
	dir := tree(t, "-- old --\n1\n-- new --\n1\n")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old"), past, past); err != nil {
		t.Fatal(err)
	}
	// The test's folder may be inside a git repository.
	env := append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	got, err := mark{Time: past.Add(time.Minute)}.changed(t.Context(), "rg", dir, env)
	if err != nil || len(got) != 1 || filepath.Base(got[0]) != "new" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestChangedRunsNothing checks that the search for changed files runs no
// program that the tree's git configuration names.
func TestChangedRunsNothing(t *testing.T) {
	need.Command(t, "git")
	dir := t.TempDir()
	ran := filepath.Join(t.TempDir(), "ran")
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	evil := "touch " + ran + "; cat"
	gitIn(t, dir, "echo 1 > a; git add a; git commit -qm one; echo '* filter=evil diff=evil' > .gitattributes; echo 2 > a"+
		"; git config filter.evil.clean '"+evil+"'; git config core.fsmonitor '"+evil+"'; git config diff.evil.textconv '"+evil+"'; git config diff.external '"+evil+"'")
	got, err := readMark(t.Context(), "", dir, os.Environ()).changed(t.Context(), "rg", dir, os.Environ())
	if err != nil || len(got) != 2 {
		t.Errorf("changed: %q, %v", got, err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the tree's configuration ran")
	}
}
