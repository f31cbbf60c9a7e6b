package shell

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestLines checks the command lines in testdata/lines.tsv.
func TestLines(t *testing.T) {
	f, err := os.Open("testdata/lines.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "# ") {
			continue
		}
		row := strings.SplitN(lines.Text(), "\t", 3)
		if len(row) != 3 {
			t.Fatalf("a row has %d columns: %q", len(row), lines.Text())
		}
		rows++
		line := strings.ReplaceAll(row[2], "⏎", "\n")
		v := Compile(strings.Split(row[1], ",")).Judge(line)
		if v.Allowed != (row[0] == "allow") {
			t.Errorf("[%s] %q: allowed %v, want %s: %s", row[1], line, v.Allowed, row[0], v.Why)
		}
		if !v.Allowed && v.Why == "" {
			t.Errorf("[%s] %q: no reason", row[1], line)
		}
	}
	if rows < 200 {
		t.Errorf("only %d rows", rows)
	}
}

func TestCommandsAreTold(t *testing.T) {
	v := Compile([]string{"git status"}).Judge("git status && rm -rf / | wc")
	var got []string
	for _, c := range v.Commands {
		got = append(got, c.Text+"|"+c.Entry)
	}
	if want := "git status|git status, rm -rf /|, wc|"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(v.Why, "rm -rf /") {
		t.Errorf("the reason %q does not name the command", v.Why)
	}
}

// pieces are the building blocks of random lines: words, and everything that
// bash treats as syntax.
var pieces = []string{
	"ok", "evil", "ok", "echo", "x", "-v", "-c", "bash", "env", "command", "xargs", "timeout 1", "find . -exec", "{}", `\;`, "+", "a=b", "PATH=.", "x=", "*", "~",
	" ", " ", " ", " ", "\n", ";", ";", "&", "&&", "||", "|", "|&", "(", ")", "{", "}", "$(", "`", "$((", "))", "<(", ">(", "\"", "'", "$'", "$\"", `\`, "#", "!",
	"$x", "${x}", "${x:-", "${x@P}", "<<E", "<<'E'", "<<-E", "\nE\n", "<<<", "<", ">", ">/dev/null", "2>&1", "&>", "[[", "]]", "[", "]", "if", "then", "else", "fi", "for", "in",
	"do", "done", "while", "case", "esac", "x)", ";;", "function", "time", "coproc", "alias", "eval", "test", "printf", "{ok,evil}", "\t", "=", ",", "\\\n",
	"\"${y:-", "${y:+", "}", "'}", "$(cat <<E\n", "\nE)", "\n\\\nE\n", "\\`", "\\$(", "cat", "nice -n", "xargs -I", "xargs -n", "-s", "$y", "\"$@\"", "printf %n PATH",
}

// linesPerCheck is the number of lines in each of rapid's 100 checks.
const linesPerCheck = 60

// TestRandomLines runs every allowed random line in an environment where all
// programs except the allowed one leave a mark.
func TestRandomLines(t *testing.T) {
	place := newWorkDir(t)
	list := Compile([]string{"ok", "echo", "cat", "printf"})
	allowed := 0
	check := func(t *rapid.T) {
		for range linesPerCheck {
			line := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 14).Draw(t, "pieces"), "")
			if !list.Judge(line).Allowed {
				continue
			}
			allowed++
			if mark := place.run(line); mark != "" {
				t.Fatalf("the line %q is allowed, and ran %s", line, mark)
			}
		}
	}
	rapid.Check(t, check)
	for _, line := range []string{"ok", "echo x | ok", "echo $(ok)", "if ok; then echo y; fi", "bash -c 'ok; echo x'", "timeout 1 ok", "ok <<E\nevil\nE"} {
		if !list.Judge(line).Allowed {
			t.Errorf("%q is not allowed", line)
		}
		if mark := place.run(line); mark != "" {
			t.Errorf("the line %q ran %s", line, mark)
		}
	}
	if mark := place.run("ok; evil"); mark == "" {
		t.Error("a program that is not allowed leaves no mark: the test cannot fail")
	}
	t.Logf("%d random lines were allowed and run", allowed)
}

// real lists the real programs that a workDir contains.
var real = []string{"bash", "env", "timeout", "xargs", "find", "nice", "cat"}

// workDir is a folder in which command lines run. Its programs are ok, which
// does nothing, and others, which record that they have run.
type workDir struct{ dir string }

func newWorkDir(t testing.TB) workDir {
	t.Helper()
	p := workDir{t.TempDir()}
	bin := filepath.Join(p.dir, "bin")
	if err := os.MkdirAll(filepath.Join(p.dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("ok", ":")
	for _, name := range []string{"evil", "x", "E", "b", "a", "okevil", "evilok", "in", "v"} {
		script(name, "echo "+name+" >> "+filepath.Join(p.dir, "mark"))
	}
	for _, name := range real {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run runs the line and returns the programs that left a mark.
func (p workDir) run(line string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/bash", "--norc", "--noprofile", "-c", line)
	cmd.Dir = filepath.Join(p.dir, "work")
	cmd.Env = []string{"PATH=" + filepath.Join(p.dir, "bin"), "x=$(evil)", "LC_ALL=C.UTF-8"}
	_ = cmd.Run() // most lines fail
	mark := filepath.Join(p.dir, "mark")
	said, _ := os.ReadFile(mark) // without a file there is no mark
	_ = os.Remove(mark)
	return strings.Join(strings.Fields(string(said)), " ")
}

// FuzzJudge checks that if a command that is not on the list is inserted
// anywhere in an allowed line, the line is no longer allowed.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"git status", "echo 'x' \"$y\" | wc -l", "for f in a b; do echo $f; done", "cat <<E\nx\nE", "bash -c 'ok'", "find . -exec ok {} +", "echo ${x:-y}"} {
		f.Add(s)
	}
	list := Compile([]string{"git status", "echo", "wc", "ok", "cat", "find", "npm:install*"})
	f.Fuzz(func(t *testing.T, line string) {
		v := list.Judge(line)
		if v.Allowed == (v.Why != "") {
			t.Errorf("%q: allowed %v with the reason %q", line, v.Allowed, v.Why)
		}
		if !v.Allowed {
			return
		}
		for _, with := range []string{"evil\n" + line, line + "\n\nevil", "(" + line + "\n\n) && evil", "echo \"$(" + line + "\n\nevil)\""} {
			if list.Judge(with).Allowed {
				t.Errorf("%q is allowed", with)
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	list := Compile([]string{"git status", "go test", "grep", "wc", "npm:install*", "echo"})
	for b.Loop() {
		list.Judge(`go test ./... 2>&1 | grep -v "no test files" | wc -l && git status`)
	}
}

// Lines whose cost grows with the square of their length are refused before that.
func TestExpensiveLines(t *testing.T) {
	list := Compile([]string{"ls", "env", "nice"})
	for name, c := range map[string]struct{ line, why string }{
		"subshells":     {strings.Repeat("(", MaxLine), "parentheses and braces"},
		"arithmetic":    {"echo $((" + strings.Repeat("(", MaxLine-10), "parentheses and braces"},
		"substitutions": {strings.Repeat("$(", MaxLine/2), "parentheses and braces"},
		"wrappers":      {strings.Repeat("env nice ", MaxLine/9-10) + "ls", "more than 16 wrappers"},
	} {
		var v Verdict
		if used := testing.AllocsPerRun(1, func() { v = list.Judge(c.line) }); used > 1_000_000 {
			t.Errorf("%s: %.0f allocations", name, used)
		}
		if v.Allowed || !strings.Contains(v.Why, c.why) {
			t.Errorf("%s: %+.300v", name, v.Why)
		}
	}
	if v := list.Judge(strings.Repeat("nice ", maxWrappers) + "ls"); !v.Allowed {
		t.Errorf("%d wrappers: %s", maxWrappers, v.Why)
	}
}
