package lsp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"aloft/internal/need"
)

// tree writes files and returns their folder.
func tree(t testing.TB, archive string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		write(t, filepath.Join(dir, f.Name), string(f.Data))
	}
	return dir
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

// searchPath returns a PATH that contains only the named programs.
func searchPath(t testing.TB, programs map[string]string) []string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range programs {
		// A symbolic link would not work, because some programs look for files beside their own path.
		write(t, filepath.Join(dir, name), fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\"\n", path))
		if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"PATH=" + dir, "HOME=" + t.TempDir(), "LANG=C.UTF-8", "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local", "GOPROXY=off",
		"GOCACHE=" + goEnv(t, "GOCACHE"), "GOPATH=" + goEnv(t, "GOPATH")}
}

// python returns the path of the interpreter itself, not of a version manager's
// wrapper.
func python(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(need.Command(t, "python3"), "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func goEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tool returns the path of a program that `make test` builds in the repository.
func tool(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("../../..", path))
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, filepath.Base(path), abs)
	return abs
}

func pool(t testing.TB, cfg Config) *Pool {
	t.Helper()
	p := New(cfg)
	t.Cleanup(func() { p.Close() })
	return p
}

func lint(t testing.TB, p *Pool, paths ...string) Report {
	t.Helper()
	for i, path := range paths {
		paths[i] = filepath.Join(p.cfg.Dir, path)
	}
	begun := time.Now()
	r, err := p.Lint(t.Context(), paths, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("in %v: %d of %d files by %v; notes %q", time.Since(begun).Round(time.Millisecond), r.Total, r.Files, r.Sources, r.Notes)
	return r
}

// formatReport formats a report, one finding per line.
func formatReport(p *Pool, r Report) string {
	var b strings.Builder
	for _, d := range r.Diagnostics {
		path, _ := filepath.Rel(p.cfg.Dir, d.Path)
		fmt.Fprintf(&b, "%s:%d:%d: %s: %s [%s %s]\n", path, d.StartLine, d.StartColumn, d.Severity, d.Message, d.Source, d.Code)
	}
	return b.String()
}

func wants(t testing.TB, p *Pool, r Report, words ...string) {
	t.Helper()
	text := formatReport(p, r)
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not said:\n%s\nnotes %q", w, text, r.Notes)
		}
	}
	if len(words) == 0 && text != "" {
		t.Errorf("nothing should be said:\n%s", text)
	}
}

const goTree = `
-- go.mod --
module example.com/x

go 1.26
-- main.go --
package main

import "fmt"

func main() {
	fmt.Printf("%d\n", "text")
	undefined()
}
-- other/other.go --
package other

import "fmt"

func F() string { return fmt.Sprintf("%d", "text") }
`

func TestGopls(t *testing.T) {
	dir := tree(t, goTree)
	p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{"gopls": tool(t, ".bin/gopls"), "go": need.Command(t, "go")})})
	r := lint(t, p, "main.go", "other")
	wants(t, p, r, "main.go:7:2: error: undefined: undefined [compiler UndeclaredName]", "other/other.go:5:39: warning: fmt.Sprintf format %d has arg \"text\" of wrong type string [printf default]")
	if r.Files != 2 || len(r.Sources) != 1 || r.Sources[0] != "gopls" || len(r.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	// Edits are noticed, including edits of other files.
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport \"example.com/x/other\"\n\nfunc main() { println(other.F(), other.G()) }\n")
	wants(t, p, lint(t, p, "main.go"), "undefined: other.G")
	write(t, filepath.Join(dir, "other/other.go"), "package other\n\nfunc F() int { return 1 }\n")
	write(t, filepath.Join(dir, "other/g.go"), "package other\n\nfunc G() int { return 2 }\n")
	r = lint(t, p)
	wants(t, p, r)
	if r.Files != 3 {
		t.Errorf("%d files changed, want 3", r.Files)
	}
}

func TestGoVet(t *testing.T) {
	dir := tree(t, goTree)
	p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{"go": need.Command(t, "go")}), Only: []string{"go"}})
	r := lint(t, p, "main.go", "other")
	wants(t, p, r, "main.go:7:2: error: undefined: undefined [compiler ]")
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "gopls is not installed, so only go vet ran; install it with: go install") {
		t.Errorf("notes %q", r.Notes)
	}
	write(t, filepath.Join(dir, "main.go"), "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Printf(\"%d\\n\", \"text\") }\n")
	wants(t, p, lint(t, p, "main.go"), "main.go:5:", "wrong type string [go vet printf]")
}

const tsTree = `
-- package.json --
{"name": "x"}
-- tsconfig.json --
{"compilerOptions": {"strict": true, "target": "es2022", "module": "esnext", "moduleResolution": "bundler"}, "include": ["*.ts", "*.js"]}
-- a.ts --
export const n: number = "text";
export function f(x: string): string { return x; }
-- b.ts --
import { f } from "./a";
f(1);
const x = ;
`

func TestTypescript(t *testing.T) {
	dir := tree(t, tsTree)
	p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{
		"typescript-language-server": tool(t, "hack/node_modules/.bin/typescript-language-server"), "node": need.Command(t, "node")})})
	r := lint(t, p, "a.ts", "b.ts")
	wants(t, p, r, "a.ts:1:14: error: Type 'string' is not assignable to type 'number'. [typescript 2322]", "b.ts:2:3: error:", "b.ts:3:11: error: Expression expected. [typescript 1109]")
	write(t, filepath.Join(dir, "a.ts"), "export const n = 1;\nexport function f(x: number): number { return x; }\n")
	write(t, filepath.Join(dir, "b.ts"), "import { f } from \"./a\";\nf(1);\n")
	wants(t, p, lint(t, p, "a.ts", "b.ts"))
}

func TestPyright(t *testing.T) {
	dir := tree(t, "-- a.py --\nimport os\n\ndef f(x: int) -> str:\n    return x\n\nprint(undefined)\n")
	p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{
		"pyright-langserver": tool(t, "hack/node_modules/.bin/pyright-langserver"), "node": need.Command(t, "node"), "python3": python(t)})})
	wants(t, p, lint(t, p, "a.py"), "a.py:4:12: error:", `"undefined" is not defined`)
	write(t, filepath.Join(dir, "a.py"), "def f(x: int) -> int:\n    return x\n")
	wants(t, p, lint(t, p, "a.py"))
}

func TestProgramsThatRunOnce(t *testing.T) {
	dir := tree(t, `
-- a.py --
def f(:
    pass
-- b.py --
x = 1
if x is 1: pass
-- a.js --
const a = 1;
function ( {
-- b.sh --
#!/bin/bash
if true; then
  echo $1
-- c.sh --
#!/bin/bash
echo $1
`)
	env := searchPath(t, map[string]string{"python3": python(t), "node": need.Command(t, "node"), "bash": need.Command(t, "bash")})
	p := pool(t, Config{Dir: dir, Env: env, Only: []string{"python3", "node", "bash"}})
	r := lint(t, p, ".")
	wants(t, p, r, "a.py:1:7: error: SyntaxError: invalid syntax", `b.py:2:1: warning: "is" with`, "a.js:2:1: error: SyntaxError", "b.sh:4:1: error: syntax error: unexpected end of file")
	for _, words := range []string{"typescript-language-server is not installed, so only node --check ran", "pyright is not installed, so only python3 ran", "shellcheck is not installed, so only bash -n ran"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), words) {
			t.Errorf("%q is not noted: %q", words, r.Notes)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "__pycache__")); err == nil {
		t.Error("python wrote its bytecode")
	}
	p = pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{"shellcheck": need.Command(t, "shellcheck")})})
	wants(t, p, lint(t, p, "c.sh", "b.sh"), "c.sh:2:6: information: Double quote to prevent globbing and word splitting. [shellcheck SC2086]", "b.sh:2:1: error:")
}

// TestClangd checks that clangd uses a file's compile command and the
// declarations in its headers.
func TestClangd(t *testing.T) {
	dir := tree(t, `
-- compile_flags.txt --
-Wall
-DLIMIT=3
-- sum.h --
int sum(int a, int b);
-- main.c --
#include "sum.h"

int main(void) {

	return sum(LIMIT, "text") + undefined;
}
`)
	p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{"clangd": need.Command(t, "clangd")})})
	r := lint(t, p, "main.c", "sum.h")
	wants(t, p, r, "main.c:5:20: warning: Incompatible pointer to integer conversion", "main.c:5:30: error: Use of undeclared identifier 'undefined'")
	if r.Files != 2 || len(r.Sources) != 1 || r.Sources[0] != "clangd" || len(r.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	write(t, filepath.Join(dir, "main.c"), "#include \"sum.h\"\n\nint main(void) { int unused; return sum(LIMIT, 2); }\n")
	wants(t, p, lint(t, p, "main.c"), "main.c:3:22: warning: Unused variable 'unused' [clang -Wunused-variable]")
	write(t, filepath.Join(dir, "main.c"), "#include \"sum.h\"\n\nint main(void) { return sum(LIMIT, 2); }\n")
	wants(t, p, lint(t, p, "main.c"))
	// The unchanged file has an error after its header has changed.
	write(t, filepath.Join(dir, "sum.h"), "int sum(int a);\n")
	wants(t, p, lint(t, p, "main.c"), "main.c:3:", "Too many arguments to function call")
}

// TestESLint runs a project's own ESLint: through the language server if that
// is installed, and directly otherwise. The findings must be the same.
func TestESLint(t *testing.T) {
	dir := tree(t, `
-- package.json --
{"name": "x"}
-- eslint.config.mjs --
export default [{ rules: { eqeqeq: "error", "no-unused-vars": "warn" } }];
-- a.js --
const unused = 1;
export function same(a, b) { return a == b; }
-- sub/b.js --
export const b = 1;
`)
	modules := filepath.Dir(filepath.Dir(tool(t, "hack/node_modules/eslint/package.json")))
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	node := need.Command(t, "node")
	for name, programs := range map[string]map[string]string{
		"vscode-eslint-language-server": {"node": node, "vscode-eslint-language-server": tool(t, "hack/node_modules/.bin/vscode-eslint-language-server")},
		"eslint":                        {"node": node},
	} {
		t.Run(name, func(t *testing.T) {
			p := pool(t, Config{Dir: dir, Env: searchPath(t, programs), Only: []string{name}})
			r := lint(t, p, "a.js", "sub/b.js")
			wants(t, p, r, "a.js:1:7: warning: 'unused' is assigned a value but never used. [eslint no-unused-vars]", "a.js:2:39: error: Expected '===' and instead saw '=='. [eslint eqeqeq]")
			if len(r.Sources) != 1 || r.Sources[0] != name {
				t.Errorf("%v spoke; notes %q", r.Sources, r.Notes)
			}
			wants(t, p, lint(t, p, "sub/b.js"))
		})
	}
	// A server that does not support the project's version of ESLint reports no findings, and
	// says why only in its log. Its report must be ignored, and ESLint must be run directly.
	t.Run("AnotherESLint", func(t *testing.T) {
		dir := tree(t, `
-- eslint.config.mjs --
export default [{ rules: { eqeqeq: "error" } }];
-- a.js --
export function same(a, b) { return a == b; }
-- node_modules/eslint/package.json --
{"name": "eslint", "version": "99.0.0", "main": "api.js", "exports": {"./package.json": "./package.json", ".": "./api.js", "./use-at-your-own-risk": "./api.js"}}
-- node_modules/eslint/api.js --
module.exports = {}
`)
		if err := os.Symlink(filepath.Join(modules, ".bin"), filepath.Join(dir, "node_modules/.bin")); err != nil {
			t.Fatal(err)
		}
		p := pool(t, Config{Dir: dir, Env: searchPath(t, map[string]string{"node": node, "vscode-eslint-language-server": tool(t, "hack/node_modules/.bin/vscode-eslint-language-server")}),
			Only: []string{"vscode-eslint-language-server", "eslint"}})
		r := lint(t, p, "a.js")
		wants(t, p, r, "a.js:1:39: error: Expected '===' and instead saw '=='. [eslint eqeqeq]")
		if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "vscode-eslint-language-server failed: ") {
			t.Errorf("notes %q", r.Notes)
		}
	})
}
