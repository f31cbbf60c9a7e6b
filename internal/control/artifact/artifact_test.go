package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	_ "gocloud.dev/blob/fileblob"

	"aloft/internal/fault"
	"aloft/internal/redact"
)

const id = "bc-00000000-0000-4000-8000-000000000001"

// folder is a machine's artifacts folder: file contents by name. Reading a file
// whose name begins with "broken" fails halfway.
type folder map[string]string

func (f folder) List(context.Context) (list []Remote, more bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		sum := sha256.Sum256([]byte(f[name]))
		list = append(list, Remote{Name: name, Size: int64(len(f[name])), Modified: time.Unix(1000, 0), SHA256: hex.EncodeToString(sum[:])})
	}
	return list, false, nil
}

func (f folder) Read(_ context.Context, name string, to io.Writer) error {
	if strings.HasPrefix(name, "broken") {
		_, _ = io.WriteString(to, "half of")
		return errors.New("the machine is gone")
	}
	for piece := range slices.Chunk([]byte(f[name]), 7) { // small pieces split the secrets
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func open(t *testing.T, dir string, limits Limits) *Store {
	t.Helper()
	at, err := FolderURL(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), at, limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func collect(t *testing.T, s *Store, from Source) map[string]string {
	t.Helper()
	left, err := s.Collect(t.Context(), id, from, redact.New(map[string]string{"K": "hunter2-hunter2"}))
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, l := range left {
		why[l.Name] = l.Why
	}
	return why
}

func read(t *testing.T, s *Store, name string) string {
	t.Helper()
	r, f, err := s.Open(t.Context(), id, name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil || int64(len(b)) != f.Size {
		t.Fatalf("%d bytes of %d, %v", len(b), f.Size, err)
	}
	return string(b)
}

func names(t *testing.T, s *Store) (list []string) {
	t.Helper()
	files, err := s.List(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		list = append(list, f.Name)
	}
	return list
}

func TestArtifactsOutliveTheirFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := open(t, dir, DefaultLimits)
	if got := names(t, s); got != nil {
		t.Errorf("at first there are %q", got)
	}
	if left := collect(t, s, folder{"a.txt": "one", "deep/er/b": "two", "empty": ""}); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	collect(t, s, folder{"a.txt": "one, changed"}) // the other files were deleted in the machine
	s = open(t, dir, DefaultLimits)                // the store of another server
	if got := names(t, s); !slices.Equal(got, []string{"a.txt", "deep/er/b", "empty"}) {
		t.Errorf("kept %q", got)
	}
	if a, b := read(t, s, "a.txt"), read(t, s, "deep/er/b"); a != "one, changed" || b != "two" || read(t, s, "empty") != "" {
		t.Errorf("they hold %q and %q", a, b)
	}
	files, _ := s.List(t.Context(), id)
	if !files[0].Modified.Equal(time.Unix(1000, 0)) {
		t.Errorf("changed at %s", files[0].Modified)
	}
	if n := objects(t, dir); n != 4 {
		t.Errorf("%d objects are there: three contents and an index are wanted", n)
	}
}

func objects(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRemovedWithTheAgent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := open(t, dir, DefaultLimits)
	collect(t, s, folder{"a": "one", "b": "two"})
	for range 2 { // removing is idempotent
		if err := s.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if n := objects(t, dir); n != 0 || names(t, s) != nil {
		t.Errorf("%d objects are left", n)
	}
	if _, _, err := s.Open(t.Context(), id, "a"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestSecretsAreTakenOutOfText(t *testing.T) {
	s := open(t, t.TempDir(), DefaultLimits)
	long := strings.Repeat("x", peek)
	collect(t, s, folder{
		"short": "key=hunter2-hunter2;", "long": long + "hunter2-hunter2" + long, "edge": long[:peek-3] + "hunter2-hunter2",
		"picture": "\x89PNG\x00hunter2-hunter2", "end": "key=hunter2",
	})
	for name, want := range map[string]string{
		"short": "key=[REDACTED];", "long": long + "[REDACTED]" + long, "edge": long[:peek-3] + "[REDACTED]",
		"picture": "\x89PNG\x00hunter2-hunter2", "end": "key=hunter2",
	} {
		if got := read(t, s, name); got != want {
			t.Errorf("%s holds %.60q, %d bytes", name, got, len(got))
		}
	}
}

func TestWhatIsNotKept(t *testing.T) {
	s := open(t, t.TempDir(), Limits{Files: 3, FileSize: 10, Size: 15})
	left := collect(t, s, folder{
		"../out": "x", "a//b": "x", "nl\n": "x", "\u202egpj.exe": "x", "bad\xff": "x", `c:\x`: "x",
		strings.Repeat("d/", 300) + "e": "x", strings.Repeat("f", 256): "x", "hunter2-hunter2.txt": "x",
		"broken": "x", "large": "12345678901", "g": "1234567890", "h": "12345", "i": "1", "j": "", "k": "",
	})
	if got := names(t, s); !slices.Equal(got, []string{"g", "h", "j"}) {
		t.Errorf("kept %q", got)
	}
	if len(left) != 13 || strings.Contains(fmt.Sprint(left), "hunter2") || left["broken"] != "the machine is gone" {
		t.Errorf("%d are left: %q", len(left), left)
	}
	// A file that grows while it is read is cut off too.
	s = open(t, t.TempDir(), Limits{Files: 3, FileSize: 10, Size: 15})
	if left := collect(t, s, liar{}); names(t, s) != nil || len(left) != 1 {
		t.Errorf("left %q", left)
	}
}

// liar sends more bytes than it announced.
type liar struct{}

func (liar) List(context.Context) ([]Remote, bool, error) {
	return []Remote{{Name: "a", Size: 1, SHA256: "0", Modified: time.Now().Add(time.Hour)}}, false, nil
}

func (liar) Read(_ context.Context, _ string, to io.Writer) error {
	for {
		if _, err := to.Write(bytes.Repeat([]byte("x"), 4)); err != nil {
			return err
		}
	}
}

func TestACopyThatFailedIsMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	s := open(t, dir, DefaultLimits)
	if left := collect(t, s, folder{"broken": "x"}); len(left) != 1 || objects(t, dir) != 0 {
		t.Errorf("left %q, and %d objects", left, objects(t, dir))
	}
	// If the server crashes between writing the contents and the index, the
	// artifact does not exist.
	f := folder{"a": "one"}
	r, _, _ := f.List(t.Context())
	if _, err := s.copy(t.Context(), id, r[0], f, nil, 100); err != nil {
		t.Fatal(err)
	}
	if names(t, s) != nil {
		t.Error("contents without an index are listed")
	}
	collect(t, s, f)
	if got := read(t, s, "a"); got != "one" || objects(t, dir) != 2 {
		t.Errorf("it holds %q; %d objects", got, objects(t, dir))
	}
}

func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"a/b", "../a", "/a", "a\x00", strings.Repeat("a/", 300)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name) != nil {
			return
		}
		if !filepath.IsLocal(name) || filepath.Clean(name) != name {
			t.Errorf("%q passes", name)
		}
	})
}
