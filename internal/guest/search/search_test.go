package search

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/need"
)

// goSource is a large tree of real code: Go's own library.
func goSource(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the tests run where Go is
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

var _ = []any{context.Background, errors.New, fmt.Sprint, os.Remove, strings.Cut}
