package layer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gocloud.dev/blob/fileblob"
	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

const childEnv = "ALOFT_TEST_CHILD"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childEnv); ok {
		if err := child(strings.Split(args, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs one operation on the store in args[0], and is killed at the step
// args[1].
func child(args []string) error {
	s, err := Open(args[0], slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	s.step = func(step string) {
		if step == args[1] {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	ctx := context.Background()
	switch what, id := args[2], args[3]; what {
	case "freeze":
		return s.Freeze(Layer{ID: id, Image: "host", Kept: true}, args[4], "machine")
	case "delete":
		return s.Delete(id)
	case "merge":
		return s.flatten(ctx, id)
	case "import":
		b, err := fileblob.OpenBucket(args[4], &fileblob.Options{NoTempDir: true})
		if err != nil {
			return err
		}
		_, err = s.Import(ctx, id, b, nil)
		return err
	}
	return errors.New("unknown: " + args[2])
}

// killed runs a child and checks that it was killed.
func killed(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(args, "|"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("the child was not killed at %q: %v: %s", args[1], err, out)
	}
}

// content reads the file of a layer made by [frozen].
func content(t *testing.T, s *Store, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.tree(id), "file"))
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

// emptied deletes everything and checks that the store is empty.
func emptied(t *testing.T, s *Store) {
	t.Helper()
	kept, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range kept {
		if err := s.Delete(l.ID); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(s.Collect(), s.Close()); err != nil {
		t.Error(err)
	}
	for _, part := range []string{"tree", "meta", "work", "trash"} {
		if entries, _ := os.ReadDir(s.path(part, "")); len(entries) != 0 {
			t.Errorf("%s holds %v", part, entries)
		}
	}
}

func TestKilledWhileFreezing(t *testing.T) {
	for _, step := range []string{"freeze: claimed", "freeze: described", "freeze: moved"} {
		for _, collectedFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, collected first %v", step, collectedFirst), func(t *testing.T) {
				s, machine := open(t, t.TempDir()), t.TempDir()
				if _, err := s.Claim("machine", machine, ""); err != nil {
					t.Fatal(err)
				}
				upper := filepath.Join(machine, "upper")
				if err := os.Mkdir(upper, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(upper, "file"), []byte("work"), 0o600); err != nil {
					t.Fatal(err)
				}
				id := NewID(Snapshot)
				killed(t, s.dir, step, "freeze", id, upper)
				if collectedFirst {
					if err := s.Collect(); err != nil {
						t.Fatal(err)
					}
				}
				if s.Has(id) != (step == "freeze: moved") {
					t.Fatalf("the layer is there: %v", s.Has(id))
				}
				if !s.Has(id) { // if the layer was not frozen, the machine still has its files
					if err := s.Freeze(Layer{ID: id, Image: "host", Kept: true}, upper, "machine"); err != nil {
						t.Fatal(err)
					}
				}
				if got := content(t, s, id); got != "work" {
					t.Errorf("it holds %q", got)
				}
				// No parent of the layer is recorded yet, but its parent is
				// claimed.
				if err := s.Delete(id); err != nil {
					t.Fatal(err)
				}
				if got := content(t, s, id); got != "work" {
					t.Errorf("after it was given up, with the machine there, it holds %q", got)
				}
				if err := os.RemoveAll(machine); err != nil {
					t.Fatal(err)
				}
				emptied(t, s)
			})
		}
	}
}

func TestKilledWhileImporting(t *testing.T) {
	from, dir := open(t, t.TempDir()), t.TempDir()
	b, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	below := frozen(t, from, "", "below")
	above := frozen(t, from, below.ID, "above")
	if err := from.Export(t.Context(), above.ID, b, nil); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"put: described", "put: moved"} {
		t.Run(step, func(t *testing.T) {
			s := open(t, t.TempDir())
			killed(t, s.dir, step, "import", above.ID, dir)
			if s.Has(above.ID) {
				t.Fatal("the topmost layer is there without all below it")
			}
			if err := s.Collect(); err != nil { // another process may remove garbage before the retry
				t.Fatal(err)
			}
			if _, err := s.Import(t.Context(), above.ID, b, nil); err != nil {
				t.Fatal(err)
			}
			if got := content(t, s, above.ID) + content(t, s, below.ID); got != "abovebelow" {
				t.Errorf("they hold %q", got)
			}
			emptied(t, s)
		})
	}
}

func TestKilledWhileCollecting(t *testing.T) {
	for _, step := range []string{"collect: discarded", "collect: forgotten"} {
		t.Run(step, func(t *testing.T) {
			s := open(t, t.TempDir())
			below := frozen(t, s, "", "below")
			above, gone := frozen(t, s, below.ID, "above"), frozen(t, s, below.ID, "gone")
			killed(t, s.dir, step, "delete", gone.ID)
			if _, err := s.Layer(gone.ID); fault.Of(err).Kind != fault.KindNotFound {
				t.Errorf("half gone: %v", err)
			}
			if got := content(t, s, above.ID) + content(t, s, below.ID); got != "abovebelow" {
				t.Errorf("the others hold %q", got)
			}
			emptied(t, open(t, s.dir))
		})
	}
}

func TestKilledWhileMerging(t *testing.T) {
	for _, step := range []string{"put: described", "put: moved"} {
		t.Run(step, func(t *testing.T) {
			s := open(t, t.TempDir())
			one := frozen(t, s, "", "one")
			two := frozen(t, s, one.ID, "two")
			three := frozen(t, s, two.ID, "three")
			killed(t, s.dir, step, "merge", three.ID)
			if err := s.Collect(); err != nil {
				t.Fatal(err)
			}
			if stack, err := s.Stack(three.ID); err != nil || len(stack) != 3 {
				t.Fatalf("%d layers, %v", len(stack), err)
			}
			if err := s.flatten(t.Context(), three.ID); err != nil {
				t.Fatal(err)
			}
			stack, err := s.Stack(three.ID)
			if err != nil || len(stack) != 2 || content(t, s, stack[1].ID) != "two" {
				t.Fatalf("%d layers, %v", len(stack), err)
			}
			emptied(t, open(t, s.dir))
		})
	}
}
