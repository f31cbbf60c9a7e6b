package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/guest/ripgrep"
	"aloft/internal/need"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ripgrep.Argument {
		os.Exit(ripgrep.Main(os.Args[2:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// goSource returns a large tree of real code: Go's standard library.
func goSource(t testing.TB) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output() // runtime.GOROOT is empty with -trimpath
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(root)), "src")
	need.File(t, "goroot", filepath.Join(dir, "net/http/server.go"))
	need.Command(t, "rg")
	return dir
}

func ask(t testing.TB, x *Index, q Query) Answer {
	t.Helper()
	if q.Results == 0 {
		q.Results = 10
	}
	a, err := x.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func paths(a Answer) (all []string) {
	for _, r := range a.Results {
		all = append(all, r.Path)
	}
	return all
}

func TestFindsInGosLibrary(t *testing.T) {
	dir := goSource(t)
	for _, ctags := range []string{"none", ""} {
		t.Run("ctags="+ctags, func(t *testing.T) {
			if ctags == "" {
				need.Command(t, "ctags")
			}
			x := New(Config{Dir: dir, State: t.TempDir(), Ctags: ctags})
			defer x.Close()
			for question, want := range map[string]string{
				"where are goroutines scheduled onto threads": "runtime/proc.go",
				"parse a duration string":                     "time/format.go",
				"ParseDuration":                               "time/format.go",
				"http server graceful shutdown":               "net/http/server.go",
				"reverse proxy director":                      "net/http/httputil/reverseproxy.go",
				"garbage collector write barrier":             "runtime/mbarrier.go",
				"json unmarshal into struct fields":           "encoding/json/decode.go",
				"escape HTML in templates":                    "html/template/escape.go",
				"quicksort pattern defeating":                 "sort/zsortfunc.go",
				"TLS client handshake":                        "crypto/tls/handshake_client.go",
				"walk a directory tree":                       "path/filepath/path.go",
				"map iteration order random":                  "internal/runtime/maps/table.go",
				"read zip archive central directory":          "archive/zip/reader.go",
				"regular expression onepass compile":          "regexp/onepass.go",
				"cookie parsing SameSite":                     "net/http/cookie.go",
				"environment variables of a command dedup":    "os/exec/exec.go",
			} {
				start := time.Now()
				a := ask(t, x, Query{Text: question})
				took := time.Since(start)
				rank := slices.Index(paths(a), want)
				t.Logf("%-45s %d in %v", question, rank+1, took.Round(time.Millisecond))
				if rank < 0 || rank > 4 {
					t.Errorf("%q: %s is not among the first five of %q", question, want, paths(a))
				}
			}
		})
	}
}

// small returns an index of a tree with these files.
func small(t testing.TB, files map[string]string) (*Index, string) {
	t.Helper()
	need.Command(t, "rg")
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	x := New(Config{Dir: dir, State: t.TempDir(), Ctags: "none"})
	t.Cleanup(func() { x.Close() })
	return x, dir
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFollowsTheFiles(t *testing.T) {
	x, dir := small(t, map[string]string{"a.go": "package a\n\nfunc Alpha() {}\n", "b.go": "package a\n\nfunc Beta() {}\n"})
	check := func(query string, want ...string) {
		t.Helper()
		if got := paths(ask(t, x, Query{Text: query})); !slices.Equal(got, want) {
			t.Errorf("%q is in %q, want %q", query, got, want)
		}
	}
	check("alpha", "a.go")
	write(t, filepath.Join(dir, "a.go"), "package a\n\nfunc Gamma() {}\n")
	check("alpha")
	check("gamma", "a.go")
	if err := os.Rename(filepath.Join(dir, "b.go"), filepath.Join(dir, "c.go")); err != nil {
		t.Fatal(err)
	}
	check("beta", "c.go")
	if err := os.Remove(filepath.Join(dir, "c.go")); err != nil {
		t.Fatal(err)
	}
	check("beta")
	// The index notices a file with new contents but unchanged size and time.
	info, err := os.Stat(filepath.Join(dir, "a.go"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "a.go"), "package a\n\nfunc Delta() {}\n")
	if err := os.Chtimes(filepath.Join(dir, "a.go"), info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	check("delta", "a.go")
	write(t, filepath.Join(dir, ".gitignore"), "a.go\n")
	check("delta")
}

func TestManyEditsStaySmall(t *testing.T) {
	x, dir := small(t, map[string]string{"a.go": "package a\n"})
	for i := range 5 * manySmall {
		write(t, filepath.Join(dir, fmt.Sprintf("f%d.go", i%40)), fmt.Sprintf("package a\n\nfunc Number%d() {}\n", i))
		if got := ask(t, x, Query{Text: fmt.Sprintf("Number%d", i)}); len(got.Results) == 0 || got.Results[0].Path != fmt.Sprintf("f%d.go", i%40) {
			t.Fatalf("edit %d: %q", i, paths(got))
		}
	}
	left, err := filepath.Glob(filepath.Join(x.dir, "*.seg"))
	if err != nil || len(left) > manySmall+1 || len(x.segments) != len(left) {
		t.Errorf("%d segments on disk, %d in use, %v", len(left), len(x.segments), err)
	}
}

func TestIsKept(t *testing.T) {
	x, dir := small(t, map[string]string{"a.go": "package a\n\nfunc Alpha() {}\n", "b.go": "package a\n\nfunc Beta() {}\n"})
	ask(t, x, Query{Text: "alpha"})
	write(t, filepath.Join(dir, "a.go"), "package a\n\nfunc Alpha2() {}\n")
	ask(t, x, Query{Text: "alpha"})
	// If a second index is opened while the first is open, it uses a separate
	// folder.
	other := New(x.cfg)
	ask(t, other, Query{Text: "alpha"})
	if !other.private {
		t.Error("two share one index")
	}
	place := other.dir
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(place); err == nil {
		t.Error("the private index was left behind")
	}
	before := x.next
	if err := errors.Join(x.Close(), x.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Search(t.Context(), Query{Text: "alpha"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	again := New(x.cfg)
	defer again.Close()
	if got := paths(ask(t, again, Query{Text: "Alpha2"})); !slices.Equal(got, []string{"a.go"}) {
		t.Errorf("after a restart: %q", got)
	}
	if again.next != before {
		t.Errorf("the index was built anew: %d segments before, %d now", before, again.next)
	}
	// An index that has been damaged is built again.
	segments, _ := filepath.Glob(filepath.Join(again.dir, "*.seg"))
	for _, name := range segments {
		if err := os.Truncate(name, 10); err != nil {
			t.Fatal(err)
		}
	}
	if got := paths(ask(t, again, Query{Text: "beta"})); !slices.Equal(got, []string{"b.go"}) {
		t.Errorf("after damage: %q", got)
	}
}

func TestOddFiles(t *testing.T) {
	need.Command(t, "rg")
	x, dir := small(t, map[string]string{
		"empty.go": "", "binary.dat": "alpha\x00beta", "wrong.go": "package \xff\xfe\n// alpha\n", "long.js": strings.Repeat("alpha ", 100_000),
		"large.txt": strings.Repeat("alpha beta\n", 200_000), "name\nwith break.go": "// alpha\n", "blank.go": "\n\n\n", "cr.txt": "alpha\r\nbeta\r\n",
	})
	for _, make := range []func(string) error{
		func(p string) error { return os.Symlink("/etc/passwd", p) },
		func(p string) error { return os.Symlink(".", p) },
	} {
		if err := make(filepath.Join(dir, fmt.Sprintf("link%p", make))); err != nil {
			t.Fatal(err)
		}
	}
	a := ask(t, x, Query{Text: "alpha", Results: 50})
	got := paths(a)
	without := New(Config{Dir: dir, State: t.TempDir(), Ctags: x.cfg.Ctags, Ripgrep: "/no/rg"})
	defer without.Close()
	if diff := cmp.Diff(a, ask(t, without, Query{Text: "alpha", Results: 50})); diff != "" {
		t.Errorf("without rg:\n%s", diff)
	}
	for _, want := range []string{"wrong.go", "long.js", "name\nwith break.go", "cr.txt"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	for _, r := range a.Results {
		if len(r.Snippet) > snippetLines*(snippetLine+20) || r.StartLine < 1 || r.EndLine < r.StartLine {
			t.Errorf("%+v", r)
		}
	}
	if got := paths(ask(t, x, Query{Text: "large"})); !slices.Contains(got, "large.txt") {
		t.Errorf("a file that is too large is known by its name: %q", got)
	}
}

func TestBadQuestions(t *testing.T) {
	x, _ := small(t, map[string]string{"a.go": "package a\n"})
	for _, text := range []string{"", "?!", strings.Repeat("x", maxQuery+1)} {
		if _, err := x.Search(t.Context(), Query{Text: text}); err == nil {
			t.Errorf("%.20q is answered", text)
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	errUser := errors.New("the user has enough")
	stop(errUser)
	if _, err := x.Search(ctx, Query{Text: "alpha"}); !errors.Is(err, errUser) {
		t.Errorf("a question that is over: %v", err)
	}
	nowhere := New(Config{Dir: x.cfg.Dir, State: "/dev/null/x"})
	defer nowhere.Close()
	if _, err := nowhere.Search(t.Context(), Query{Text: "alpha"}); err == nil || !strings.Contains(err.Error(), "use Grep") {
		t.Errorf("without a place: %v", err)
	}
}

// TestAbortWhileBuilding checks that an aborted first build keeps what it has
// indexed.
func TestAbortWhileBuilding(t *testing.T) {
	x := New(Config{Dir: goSource(t), State: t.TempDir(), Ctags: "none"})
	defer x.Close()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	begun := time.Now()
	_, err := x.Search(ctx, Query{Text: "alpha"})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // the error is nil if the machine is faster
		t.Error(err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v to stop", took)
	}
}

func BenchmarkIndex(b *testing.B) {
	dir := goSource(b)
	// The baseline reads every line of the same files and matches each word.
	b.Run("rg", func(b *testing.B) { runRipgrep(b, dir, "--count-matches", `\w+`) })
	for _, ctags := range []string{"none", ""} {
		b.Run("ctags="+ctags, func(b *testing.B) {
			var files, size int64
			for b.Loop() {
				x := New(Config{Dir: dir, State: b.TempDir(), Ctags: ctags})
				ask(b, x, Query{Text: "alpha"})
				files, size = 0, 0
				for _, s := range x.segments {
					files += int64(len(s.files))
					size += s.source
				}
				x.Close()
			}
			each := b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(float64(files)/each, "files/s")
			b.ReportMetric(float64(size)/1e6/each, "MB/s")
		})
	}
}

func BenchmarkQuery(b *testing.B) {
	x := New(Config{Dir: goSource(b), State: b.TempDir(), Ctags: "none"})
	defer x.Close()
	ask(b, x, Query{Text: "alpha"})
	disk := int64(0)
	for _, s := range x.segments {
		info, err := s.file.Stat()
		if err != nil {
			b.Fatal(err)
		}
		disk += info.Size()
	}
	b.Run("rg", func(b *testing.B) { runRipgrep(b, x.cfg.Dir, "-i", "goroutines|scheduled|threads") })
	b.Run("Ours", func(b *testing.B) {
		for b.Loop() {
			ask(b, x, Query{Text: "where are goroutines scheduled onto threads"})
		}
		memory(b, disk)
	})
}

// runRipgrep is the baseline: it searches the tree without an index.
func runRipgrep(b *testing.B, dir string, args ...string) {
	b.Helper()
	rg := need.Command(b, "rg")
	for b.Loop() {
		cmd := exec.Command(rg, args...)
		cmd.Dir = dir
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func memory(b *testing.B, disk int64) {
	b.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/1e6, "heap-MB")
	b.ReportMetric(float64(disk)/1e6, "disk-MB")
}

func TestCtags(t *testing.T) {
	ctags := need.Command(t, "ctags")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.cc"), "namespace n {\nclass Engine {\n public:\n  template <class T>\n  void\n  ignite(T t);\n};\n}\ntemplate <class T>\nvoid\nn::Engine::ignite(T t)\n{\n}\n")
	write(t, filepath.Join(dir, "-a b.java"), "class B {\n  int\n  count() { return 1; }\n}\n")
	found, err := tags(t.Context(), ctags, dir, []string{"a.cc", "-a b.java", "gone.c", "two\nlines.c"})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]symbol{"a.cc": {"ignite", 11}, "-a b.java": {"count", 3}} {
		if !slices.Contains(found[file], want) {
			t.Errorf("%s: %v is not among %v", file, want, found[file])
		}
	}
	if _, err := tags(t.Context(), "/no/ctags", dir, nil); !errors.Is(err, errNoCtags) {
		t.Errorf("without ctags: %v", err)
	}
}

func TestIndexInTheTree(t *testing.T) {
	need.Command(t, "rg")
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.go"), "package a\n\nfunc Alpha() {}\n")
	x := New(Config{Dir: dir, State: filepath.Join(dir, ".index"), Ctags: "none"})
	defer x.Close()
	for range 3 {
		if a := ask(t, x, Query{Text: "alpha"}); a.Files != 1 || x.next != 1 {
			t.Errorf("%d files, %d segments", a.Files, x.next)
		}
	}
}
