package namespace

import (
	"errors"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/need"
)

// TestImports checks that the package does not import anything that would be
// initialized before it in the process of MakeLimited.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"errors", "io", "os", "runtime", "strconv", "strings", "syscall"}
	checked := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		for _, i := range f.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err != nil || !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s, %v", name, i.Path.Value, err)
			}
		}
	}
	if checked == 0 {
		t.Error("no file was checked")
	}
}

// TestMakeLimited creates namespaces, and checks the errors of the other process.
func TestMakeLimited(t *testing.T) {
	need.Root(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const first, size = 0x60000000, 1 << 16
	good := Limited{Program: self, Network: true, ID: syscall.SysProcIDMap{HostID: first, Size: size}, Max: 32}
	n, err := MakeLimited(good)
	if err != nil || n.User == nil || n.Network == nil {
		t.Fatalf("%+v, %v", n, err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	missing := good
	missing.Program = filepath.Join(t.TempDir(), "missing")
	if _, err := MakeLimited(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing program: %v", err)
	}
	none := good
	none.Max = 0 // not even the machine's own
	if n, err := MakeLimited(none); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("a limit of 0: %+v, %v", n, err)
	}
}
