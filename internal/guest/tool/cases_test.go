package tool_test

import (
	"os"
	"testing"

	"aloft/internal/guest/lsp"
	"aloft/internal/guest/search"
	"aloft/internal/guest/shell"
	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/need"
)

// in adapts a tool that needs only a workspace.
func in(newTool func(tool.Workspace) tool.Tool) tooltest.Make {
	return func(_ *testing.T, ws tool.Workspace) tool.Tool { return newTool(ws) }
}

func TestRead(t *testing.T)         { tooltest.Run(t, in(tool.Read), "testdata/read") }
func TestWrite(t *testing.T)        { tooltest.Run(t, in(tool.Write), "testdata/write") }
func TestStrReplace(t *testing.T)   { tooltest.Run(t, in(tool.StrReplace), "testdata/str_replace") }
func TestEditNotebook(t *testing.T) { tooltest.Run(t, in(tool.EditNotebook), "testdata/edit_notebook") }
func TestDelete(t *testing.T)       { tooltest.Run(t, in(tool.Delete), "testdata/delete") }

// noRipgrep is the path of rg in a machine that does not have it.
const noRipgrep = "/no/rg"

// TestWithoutRipgrep runs the cases of the search tools in a machine without
// rg.
func TestWithoutRipgrep(t *testing.T) {
	without := func(newTool func(*testing.T, tool.Workspace) tool.Tool) tooltest.Make {
		return func(t *testing.T, ws tool.Workspace) tool.Tool {
			ws.Ripgrep = noRipgrep
			return newTool(t, ws)
		}
	}
	t.Run("Ls", func(t *testing.T) { tooltest.Run(t, without(in(tool.Ls)), "testdata/ls") })
	t.Run("Glob", func(t *testing.T) { tooltest.Run(t, without(in(tool.Glob)), "testdata/glob") })
	t.Run("Grep", func(t *testing.T) { tooltest.Run(t, without(in(tool.Grep)), "testdata/grep") })
	t.Run("SemSearch", func(t *testing.T) {
		tooltest.Run(t, without(func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.SemSearch(ws, index(t, ws)) }), "testdata/sem_search")
	})
	t.Run("ReadLints", func(t *testing.T) {
		need.Command(t, "git")
		need.Command(t, "bash")
		tooltest.Run(t, without(func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.ReadLints(ws, linters(t, ws)) }), "testdata/read_lints")
	})
}

func TestLs(t *testing.T) {
	need.Command(t, "rg")
	tooltest.Run(t, in(tool.Ls), "testdata/ls")
}

func TestGlob(t *testing.T) {
	need.Command(t, "rg")
	tooltest.Run(t, in(tool.Glob), "testdata/glob")
}

func TestGrep(t *testing.T) {
	need.Command(t, "rg")
	tooltest.Run(t, in(tool.Grep), "testdata/grep")
}

func TestSemSearch(t *testing.T) {
	need.Command(t, "rg")
	tooltest.Run(t, func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.SemSearch(ws, index(t, ws)) }, "testdata/sem_search")
}

func TestReadLints(t *testing.T) {
	need.Command(t, "git")
	need.Command(t, "rg")
	need.Command(t, "bash")
	tooltest.Run(t, func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.ReadLints(ws, linters(t, ws)) }, "testdata/read_lints")
}

// index returns an index that finds the same symbols wherever the tests run.
func index(t testing.TB, ws tool.Workspace) *search.Index {
	t.Helper()
	x := search.New(search.Config{Dir: ws.Dir, State: t.TempDir(), Ctags: "none", Ripgrep: ws.Ripgrep})
	t.Cleanup(func() { x.Close() })
	return x
}

// linters returns the pool of a machine whose only linter is bash. The pool has
// marked the tree before the case changes it.
func linters(t testing.TB, ws tool.Workspace) *lsp.Pool {
	t.Helper()
	p := lsp.New(lsp.Config{Dir: ws.Dir, Env: append(os.Environ(), "LC_ALL=C"), Only: []string{"bash"}, Ripgrep: ws.Ripgrep})
	t.Cleanup(func() { p.Close() })
	return p
}

func TestShell(t *testing.T) {
	need.Command(t, "bash")
	tooltest.Run(t, func(t *testing.T, ws tool.Workspace) tool.Tool { return tool.Shell(session(t, ws.Dir), nil) }, "testdata/shell")
}

// session is a shell without a login profile.
func session(t testing.TB, dir string) *shell.Session {
	t.Helper()
	s, err := shell.New(shell.Config{
		Dir:       dir,
		Env:       []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LANG=C.UTF-8"},
		OutputDir: t.TempDir(),
	})
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
