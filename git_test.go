package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// notPrograms are functions and fields for which "git" is a word, not a
// program.
var notPrograms = map[string]bool{"Join": true, "token": true, "credential": true, "Contains": true, "HasPrefix": true, "MatchString": true}

// shellGit matches git in a shell command.
var shellGit = regexp.MustCompile(`(^|[\n;&|(]|\$\()\s*git\s+[a-z-]`)

// wordsOfGit are files that contain git in texts for people, or in lists of
// programs that an agent's command may name.
var wordsOfGit = map[string]bool{
	"internal/guest/pid1/programs.go":         true, // checks whether the machine has git
	"internal/guest/checkout/project_hook.go": true, // finds and runs the project's own hooks, as the agent's user
}

// TestOnlyGitcmdStartsGit checks that only package gitcmd starts git, so that
// every command has its safe settings. Tests may start it directly.
func TestOnlyGitcmdStartsGit(t *testing.T) {
	walk(t, func(file string) {
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "internal/gitcmd/") ||
			strings.HasPrefix(file, "bench/") || strings.HasPrefix(file, "hack/") || strings.HasPrefix(file, "test/") ||
			strings.Contains(file, "gittest/") || wordsOfGit[file] {
			return
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range startsGit(parsed) {
			t.Errorf("%s: git is started here: build the command with package gitcmd", fset.Position(at))
		}
	})
}

// startsGit returns the positions at which a file passes the program git to a
// function, begins an argument list with it, or uses it in a shell command.
func startsGit(file *ast.File) (found []token.Pos) {
	isGit := func(e ast.Expr) bool {
		lit, ok := e.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return false
		}
		text, err := strconv.Unquote(lit.Value)
		return err == nil && (text == "git" || strings.HasSuffix(text, "bin/git"))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			name := ""
			switch f := n.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			for _, arg := range n.Args {
				if isGit(arg) && !notPrograms[name] {
					found = append(found, arg.Pos())
				}
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING && (name == "command" || strings.HasPrefix(name, "Command")) {
					if text, err := strconv.Unquote(lit.Value); err == nil && shellGit.MatchString(text) {
						found = append(found, arg.Pos())
					}
				}
			}
		case *ast.CompositeLit:
			list, ok := n.Type.(*ast.ArrayType)
			elem, isIdent := ast.Expr(nil), false
			if ok {
				elem = list.Elt
				id, is := elem.(*ast.Ident)
				isIdent = is && id.Name == "string"
			}
			if isIdent && len(n.Elts) > 1 && isGit(n.Elts[0]) {
				found = append(found, n.Elts[0].Pos())
			}
		case *ast.ValueSpec:
			for _, v := range n.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && shellGit.MatchString(text) {
						found = append(found, v.Pos())
					}
				}
			}
		case *ast.AssignStmt:
			for i, v := range n.Rhs {
				if id, ok := n.Lhs[min(i, len(n.Lhs)-1)].(*ast.Ident); ok && isGit(v) && id.Name != "scheme" {
					found = append(found, v.Pos())
				}
			}
		}
		return true
	})
	return found
}

func TestStartsGit(t *testing.T) {
	for text, want := range map[string]bool{
		`exec.Command("git", "status")`:                        true,
		`exec.CommandContext(ctx, "/usr/bin/git")`:             true,
		`output(ctx, "git", args)`:                             true,
		`run(Command{Args: []string{"git", "push"}})`:          true,
		`append([]string{"git", "log"}, x...)`:                 true,
		`exec.Command("sh", "-c", "cd x && git status")`:       true,
		`func() { program := "git"; exec.Command(program) }()`: true,
		`filepath.Join(dir, "git")`:                            false,
		`[]string{"https", "git"}`:                             false,
		`say("Push again: git push origin HEAD")`:              false,
		`gitcmd.Git{}.Command(ctx, "status")`:                  false,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { use("+text+") }\n", 0)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := len(startsGit(file)) > 0; got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
