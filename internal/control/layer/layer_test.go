package layer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"golang.org/x/sys/unix"

	"aloft/internal/fault"
	"aloft/internal/need"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func bucket(t testing.TB) *blob.Bucket {
	t.Helper()
	b, err := fileblob.OpenBucket(t.TempDir(), &fileblob.Options{NoTempDir: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// A desk is a folder in which a test mounts an overlay.
type desk struct{ base, upper, work, root string }

func newDesk(t testing.TB, dir string) desk {
	t.Helper()
	d := desk{filepath.Join(dir, "base"), filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "root")}
	for _, p := range []string{d.base, d.upper, d.work, d.root} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// on mounts an overlay of the layers, base and upper, and calls do.
func (d desk) on(t testing.TB, layers []string, do func()) {
	t.Helper()
	if err := Mount(d.root, append(layers, d.base), d.upper, d.work); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Unmount(d.root); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// stackOf returns the directories of a layer's stack.
func stackOf(t testing.TB, s *Store, id string) (dirs []string) {
	t.Helper()
	stack, err := s.Stack(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range stack {
		dirs = append(dirs, s.tree(l.ID))
	}
	return dirs
}

// TestHistories makes random changes on a real overlay. After each series of
// changes (a chapter), it freezes the layer. The tree must be the same on the
// frozen layers, after the lower layers are merged, and in another store after
// export and import. With ALOFT_TEST_SOAK the test runs 1,000 histories instead
// of 60.
func TestHistories(t *testing.T) {
	need.Root(t)
	histories := 60
	if os.Getenv("ALOFT_TEST_SOAK") != "" {
		histories = 1000
	}
	var wg sync.WaitGroup
	next := make(chan int, histories) // the buffer has a slot for every history, since a failing worker stops reading
	for range runtime.NumCPU() {
		wg.Go(func() {
			for n := range next {
				if !t.Failed() {
					testHistory(t, uint64(n))
				}
			}
		})
	}
	for n := range histories {
		next <- n
	}
	close(next)
	wg.Wait()
}

func testHistory(t *testing.T, seed uint64) {
	dir, err := os.MkdirTemp(t.TempDir(), "history-")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	defer func() {
		if t.Failed() {
			t.Logf("history %d", seed)
		}
	}()
	s, far, d := open(t, filepath.Join(dir, "store")), open(t, filepath.Join(dir, "far")), newDesk(t, dir)
	defer func() { _, _ = s.Close(), far.Close() }()
	r := rand.New(rand.NewPCG(seed, 1))
	below := newScribe(t, r, d.base)
	defer func() { _ = below.root.Close() }()
	for range r.IntN(20) {
		below.write(t)
	}
	top := ""
	var want picture
	for range 2 + r.IntN(4) {
		d.on(t, stackOf(t, s, top), func() {
			w := newScribe(t, r, d.root)
			defer func() { _ = w.root.Close() }()
			for range 1 + r.IntN(25) {
				w.write(t)
			}
			want = look(t, d.root)
		})
		l := Layer{ID: NewID(Snapshot), Parent: top, Image: "base", Kept: true}
		if err := s.Freeze(l, d.upper, ""); err != nil {
			t.Error(err)
			return
		}
		top = l.ID
		if err := s.Top(top, d.upper); err != nil {
			t.Error(err)
			return
		}
		d.on(t, stackOf(t, s, top), func() { same(t, "frozen", want, look(t, d.root)) })
	}
	if err := s.flatten(t.Context(), top); err != nil {
		t.Error(err)
		return
	}
	if stack := stackOf(t, s, top); len(stack) > 2 {
		t.Errorf("%d layers after they were merged", len(stack))
	}
	d.on(t, stackOf(t, s, top), func() { same(t, "merged", want, look(t, d.root)) })
	b := bucket(t)
	if err := s.Export(t.Context(), top, b, nil); err != nil {
		t.Error(err)
		return
	}
	if _, err := far.Import(t.Context(), top, b, nil); err != nil {
		t.Error(err)
		return
	}
	d2 := newDesk(t, filepath.Join(dir, "there"))
	d2.base = d.base
	if err := os.Remove(d2.upper); err != nil {
		t.Error(err)
		return
	}
	if err := far.Top(top, d2.upper); err != nil {
		t.Error(err)
		return
	}
	d2.on(t, stackOf(t, far, top), func() { same(t, "imported", want, look(t, d2.root)) })
}

// frozen creates a layer that contains one file.
func frozen(t testing.TB, s *Store, parent, content string) Layer {
	t.Helper()
	upper := filepath.Join(t.TempDir(), "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(upper, "file"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	l := Layer{ID: NewID(Snapshot), Parent: parent, Image: "host", Kept: true}
	if err := s.Freeze(l, upper, ""); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestNothingThatIsNeededGoes(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	below := frozen(t, s, "", "below")
	machine := filepath.Join(t.TempDir(), "machine")
	if err := os.Mkdir(machine, 0o755); err != nil {
		t.Fatal(err)
	}
	above := frozen(t, s, below.ID, "above")
	dirs, err := s.Claim("machine-m-1", machine, above.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) != 2 || dirs[0] != s.tree(above.ID) {
		t.Errorf("the stack is %v", dirs)
	}
	other := frozen(t, s, below.ID, "other")
	_, unpin, err := s.pin(other.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Layer{below, above, other} {
		if err := s.Delete(l.ID); err != nil {
			t.Fatal(err)
		}
	}
	if kept, _ := s.List(); len(kept) != 0 {
		t.Errorf("%v are still listed", kept)
	}
	want := func(what string, layers ...Layer) {
		t.Helper()
		process := open(t, dir) // simulate another process
		if err := errors.Join(process.Collect(), process.Close()); err != nil {
			t.Fatal(err)
		}
		for _, l := range []Layer{below, above, other} {
			is, wanted := s.Has(l.ID), false
			for _, w := range layers {
				wanted = wanted || w.ID == l.ID
			}
			if is != wanted {
				data, _ := os.ReadFile(filepath.Join(s.tree(l.ID), "file"))
				t.Errorf("%s: the layer with %q is there: %v, want %v", what, data, is, wanted)
			}
		}
	}
	want("claimed by a machine and a copy", below, above, other)
	unpin()
	want("the copy is done", below, above)
	if err := os.Remove(machine); err != nil {
		t.Fatal(err)
	}
	want("the machine is gone")
	s.trash.Wait()
	for _, part := range []string{"tree", "meta", "claims", "work", "trash"} {
		if entries, _ := os.ReadDir(s.path(part, "")); len(entries) != 0 {
			t.Errorf("%s holds %v", part, entries)
		}
	}
}

func TestDeepStacksAreMerged(t *testing.T) {
	need.Root(t)
	s := open(t, t.TempDir())
	top := ""
	for range deep + 3 {
		top = frozen(t, s, top, "x"+top).ID
	}
	if err := s.Tend(t.Context()); err != nil {
		t.Fatal(err)
	}
	stack, err := s.Stack(top)
	if err != nil || len(stack) > deep/2 {
		t.Fatalf("%d layers, %v", len(stack), err)
	}
	// The intermediate snapshots are unchanged.
	kept, err := s.List()
	if err != nil || len(kept) != deep+3 {
		t.Fatalf("%d snapshots, %v", len(kept), err)
	}
	for i, l := range kept[1:] {
		data, err := os.ReadFile(filepath.Join(stackOf(t, s, l.ID)[0], "file"))
		if err != nil || string(data) != "x"+kept[i].ID {
			t.Errorf("%s: %s, %v", l.ID, data, err)
		}
	}
}

// TestOneStackThatCannotBeMerged uses two deep stacks. One contains a path that
// is too long to merge. The other must still be merged.
func TestOneStackThatCannotBeMerged(t *testing.T) {
	need.Root(t)
	s := open(t, t.TempDir())
	ids := map[string]string{"bad": "", "good": ""}
	for range deep + 3 {
		for name := range ids {
			ids[name] = frozen(t, s, ids[name], "more").ID
		}
	}
	stack, err := s.Stack(ids["bad"])
	if err != nil {
		t.Fatal(err)
	}
	overlong(t, s.tree(stack[len(stack)-1].ID))
	if err := s.Tend(t.Context()); err == nil || !strings.Contains(err.Error(), ids["bad"]) {
		t.Errorf("merging the path that is too long: %v", err)
	}
	if stack, err := s.Stack(ids["good"]); err != nil || len(stack) > deep/2 {
		t.Errorf("the other stack has %d layers, %v", len(stack), err)
	}
}

// overlong creates nested folders in dir until the path exceeds the kernel's
// limit.
func overlong(t *testing.T, dir string) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 200)
	for range unix.PathMax/len(name) + 2 {
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
}

func TestStackHasALimit(t *testing.T) {
	s := open(t, t.TempDir())
	top := ""
	for range maxStack {
		top = frozen(t, s, top, "").ID
	}
	upper := t.TempDir()
	err := s.Freeze(Layer{ID: NewID(Snapshot), Parent: top}, upper, "")
	if f := fault.Of(err); f.Code != "snapshot_too_deep" || f.Advice == "" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(upper); err != nil {
		t.Error(err)
	}
}

func TestUnknown(t *testing.T) {
	s := open(t, t.TempDir())
	orphan := frozen(t, s, "", "x")
	for _, id := range []string{"", "..", "../meta", "snapshot-20260101-", NewID(Snapshot), NewID(Build)} {
		if _, err := s.Layer(id); fault.Of(err).Kind != fault.KindNotFound {
			t.Errorf("Layer(%q): %v", id, err)
		}
		if err := s.Delete(id); fault.Of(err).Kind != fault.KindNotFound {
			t.Errorf("Delete(%q): %v", id, err)
		}
		if err := s.Export(t.Context(), id, bucket(t), nil); id != "" && fault.Of(err).Kind != fault.KindNotFound {
			t.Errorf("Export(%q): %v", id, err)
		}
		if _, err := s.Import(t.Context(), id, bucket(t), nil); fault.Of(err).Kind != fault.KindNotFound {
			t.Errorf("Import(%q): %v", id, err)
		}
	}
	if err := s.Freeze(orphan, t.TempDir(), ""); fault.Of(err).Kind != fault.KindConflict {
		t.Errorf("an id that is taken: %v", err)
	}
	if err := s.Freeze(Layer{ID: NewID(Build), Parent: NewID(Build)}, t.TempDir(), ""); fault.Of(err).Kind != fault.KindNotFound {
		t.Errorf("a parent that is not there: %v", err)
	}
}

func TestExportSharesLayers(t *testing.T) {
	s, far, b := open(t, t.TempDir()), open(t, t.TempDir()), bucket(t)
	below := frozen(t, s, "", "below")
	for _, content := range []string{"one", "two"} {
		l := frozen(t, s, below.ID, content)
		for range 2 { // a second export is cheap and changes nothing
			if err := s.Export(t.Context(), l.ID, b, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := far.Import(t.Context(), l.ID, b, nil); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(far.tree(l.ID), "file"))
		if err != nil || string(data) != content {
			t.Errorf("%s, %v", data, err)
		}
	}
	files := 0
	for it := b.List(&blob.ListOptions{Prefix: "blobs/sha256/"}); ; files++ {
		if _, err := it.Next(t.Context()); err != nil {
			break
		}
	}
	if files != 3+2 { // three layers and two configurations
		t.Errorf("the bucket holds %d files", files)
	}
	kept, err := far.List()
	if err != nil || len(kept) != 2 { // the lower layers exist but do not count as kept snapshots
		t.Errorf("%v, %v", kept, err)
	}
	if !far.Has(below.ID) {
		t.Error("what they stand on is not there")
	}
}

func TestImportTrustsNobody(t *testing.T) {
	s, b := open(t, t.TempDir()), bucket(t)
	l := frozen(t, s, "", "content")
	if err := s.Export(t.Context(), l.ID, b, nil); err != nil {
		t.Fatal(err)
	}
	manifest, err := b.ReadAll(t.Context(), manifestKey(l.ID))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		far := open(t, t.TempDir())
		if _, err := far.Import(t.Context(), l.ID, b, nil); err == nil {
			t.Errorf("%s: no error", what)
		}
		if far.Has(l.ID) {
			t.Errorf("%s: it is there", what)
		}
	}
	put := func(key, content string) {
		t.Helper()
		if err := b.WriteAll(t.Context(), key, []byte(content), nil); err != nil {
			t.Fatal(err)
		}
	}
	for what, change := range map[string]func(string) string{
		"no JSON":         func(string) string { return "{" },
		"no layers":       func(m string) string { return strings.Replace(m, `"layers"`, `"l"`, 1) },
		"digest of path":  func(m string) string { return strings.ReplaceAll(m, "sha256:", "sha256:../../") },
		"another content": func(m string) string { return strings.Replace(m, `"digest":"sha256:`, `"digest":"sha256:00`, 1) },
	} {
		put(manifestKey(l.ID), change(string(manifest)))
		refused(what)
	}
	// The manifest is valid but has the name of another snapshot.
	other := NewID(Snapshot)
	put(manifestKey(other), string(manifest))
	if _, err := open(t, t.TempDir()).Import(t.Context(), other, b, nil); err == nil {
		t.Error("a snapshot under another's name: no error")
	}
	put(manifestKey(l.ID), string(manifest))
	now, err := s.Layer(l.ID)
	if err != nil {
		t.Fatal(err)
	}
	key, err := blobKey(now.Packed.Digest)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := b.ReadAll(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	put(key, string(packed)+"x")
	refused("something behind it")
	put(key, string(packed[:len(packed)/2]))
	refused("cut short")
	if err := b.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	refused("gone")
}

func TestTooLargeToExport(t *testing.T) {
	s := open(t, t.TempDir())
	upper := filepath.Join(t.TempDir(), "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} { // reading all these zeros would take an hour
		f, err := os.Create(filepath.Join(upper, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	l := Layer{ID: NewID(Snapshot), Kept: true}
	if err := s.Freeze(l, upper, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Export(t.Context(), l.ID, bucket(t), nil); err == nil || !strings.Contains(err.Error(), "GiB") {
		t.Errorf("got %v", err)
	}
}

// TestSize checks that a layer's size includes its own files, hard-linked files
// once, and no targets of symbolic links.
func TestSize(t *testing.T) {
	s := open(t, t.TempDir())
	upper := t.TempDir()
	big := filepath.Join(upper, "big")
	err := errors.Join(os.WriteFile(big, make([]byte, 1<<20), 0o600), os.Link(big, filepath.Join(upper, "again")), os.Symlink("/", filepath.Join(upper, "out")))
	if err != nil {
		t.Fatal(err)
	}
	l := Layer{ID: NewID(Snapshot), Parent: frozen(t, s, "", "below").ID, Image: "host", Kept: true}
	if err := s.Freeze(l, upper, ""); err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := s.Size(over, l.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %d, %v", n, err)
	}
	for range 2 {
		if n, err := s.Size(t.Context(), l.ID); err != nil || n < 1<<20 || n > 1<<20+64<<10 {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
	without, inodes, err := s.DiskUsage(t.Context(), l.ID)
	if err != nil || inodes != 3 { // the folder, big and out
		t.Errorf("%d inodes, %v", inodes, err)
	}
	memory := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(memory, "pages"), make([]byte, 1<<20), 0o600), s.KeepMemory(l.ID, memory)); err != nil {
		t.Fatal(err)
	}
	if n, inodes, err := s.DiskUsage(t.Context(), l.ID); err != nil || n < without+1<<20 || inodes != 4 {
		t.Errorf("with memory: %d bytes, %d inodes, %v", n, inodes, err)
	}
	for _, id := range []string{"..", NewID(Snapshot)} {
		if _, err := s.Size(t.Context(), id); fault.Of(err).Kind != fault.KindNotFound {
			t.Errorf("Size(%q): %v", id, err)
		}
	}
}

// TestNeeds checks that Needs returns the machines of every layer of a stack,
// and no machines that are gone.
func TestNeeds(t *testing.T) {
	s := open(t, t.TempDir())
	below := frozen(t, s, "", "below")
	above := frozen(t, s, below.ID, "above")
	machine := t.TempDir()
	if _, err := s.Claim(MachineClaim("m-1"), machine, below.ID); err != nil {
		t.Fatal(err)
	}
	needs := func() map[string][]string {
		t.Helper()
		all, err := s.Needs()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]string{}
		for _, n := range all {
			got[n.ID] = n.Machines
		}
		return got
	}
	want := map[string][]string{below.ID: {"m-1"}, above.ID: nil}
	if diff := cmp.Diff(want, needs()); diff != "" {
		t.Errorf("needs (-want +got):\n%s", diff)
	}
	if err := errors.Join(os.Remove(machine), s.Delete(above.ID)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string][]string{below.ID: nil}, needs()); diff != "" {
		t.Errorf("after the machine has gone (-want +got):\n%s", diff)
	}
}
