package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/repourl"
)

// TestFile reads files of a commit. A second read must not run git: it succeeds
// with a cancelled context.
func TestFile(t *testing.T) {
	t.Parallel()
	forge := gittest.New(t)
	big := strings.Repeat("x", maxAnswer+1)
	url := forge.Repo("r", map[string]string{"a": "one", "dir/b": "", "big": big})
	s, err := Open(Config{Dir: t.TempDir(), Environ: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := repourl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Mirror(r)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := m.Refresh(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	first := snap.ID("refs/heads/main")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, want := range map[string]string{"a": "one", "dir/b": ""} {
		for _, ctx := range []context.Context{t.Context(), over} {
			got, err := m.File(ctx, first, name, 10)
			if err != nil || string(got) != want {
				t.Fatalf("%s: %q, %v", name, got, err)
			}
			clear(got) // the caller may modify the returned slice
		}
	}
	if got, err := m.File(t.Context(), first, "big", len(big)); err != nil || string(got) != big {
		t.Errorf("big: %d bytes, %v", len(got), err)
	}
	if _, err := m.File(over, first, "big", len(big)); err == nil {
		t.Error("a large file is kept")
	}
	for _, name := range []string{"none", "dir"} {
		for _, ctx := range []context.Context{t.Context(), over} {
			if _, err := m.File(ctx, first, name, 10); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if _, err := m.File(t.Context(), first, "a", 2); err == nil || !strings.Contains(err.Error(), "3 bytes, more than 2") {
		t.Errorf("a file of 3 bytes, of which 2 may be read: %v", err)
	}
	forge.Commit("r", "main", "two", map[string]string{"a": "two"})
	if snap, err = m.Refresh(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if got, err := m.File(t.Context(), snap.ID("refs/heads/main"), "a", 10); err != nil || string(got) != "two" {
		t.Errorf("a at the next commit: %q, %v", got, err)
	}
	for i := range maxAnswers + 5 {
		if _, _, err := m.Tree(t.Context(), first, []string{fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.answers) != maxAnswers {
		t.Errorf("%d answers are kept, want %d", len(m.answers), maxAnswers)
	}
}
