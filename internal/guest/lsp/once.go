package lsp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const maxOutput = 8 << 20 // bytes of a linter's output

// run is one execution of a linter, and a function that parses its output. The
// paths that read returns may be relative to the root.
type run struct {
	args []string
	read func(stdout, stderr []byte) []Diagnostic
}

// runOnce runs a linter on files and returns its diagnostics.
func runOnce(ctx context.Context, l *linter, command, root string, env, files []string) ([]Diagnostic, error) {
	var all []Diagnostic
	for _, r := range l.run(root, files) {
		stdout, stderr, status, err := output(ctx, command, r.args, root, append(slices.Clone(env), l.env...))
		if err != nil {
			return all, err
		}
		found := r.read(stdout, stderr)
		if len(found) == 0 && status != 0 { // the linter itself failed
			words := tail{}
			_, _ = words.Write(append(stdout, stderr...)) // never fails
			return all, fmt.Errorf("exit status %d: %s", status, words.lastLine())
		}
		for i, d := range found {
			if !filepath.IsAbs(d.Path) {
				d.Path = filepath.Join(root, d.Path)
			}
			d.Source = cmp.Or(d.Source, l.name)
			found[i] = d.bound()
		}
		all = append(all, found...)
	}
	return all, nil
}

// output runs a command and returns its output. A non-zero status is not an
// error, since linters return one if they find problems.
func output(ctx context.Context, command string, args []string, dir string, env []string) (stdout, stderr []byte, status int, err error) {
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out, complaint first
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, nil, 0, context.Cause(ctx)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
		status, err = exit.ExitCode(), nil
	}
	return out.text, complaint.text, status, err
}

// first is a writer that keeps the first bytes and discards the rest.
type first struct{ text []byte }

func (f *first) Write(p []byte) (int, error) {
	f.text = append(f.text, p[:min(len(p), maxOutput-len(f.text))]...)
	return len(p), nil
}

// relative returns a file as an argument that no program mistakes for a flag.
func relative(root, file string) string {
	if rel, err := filepath.Rel(root, file); err == nil && !strings.HasPrefix(rel, "../") {
		return "./" + rel
	}
	return file
}

func relatives(root string, files []string) []string {
	var out []string
	for _, f := range files {
		out = append(out, relative(root, f))
	}
	return out
}

func runGoVet(root string, files []string) []run {
	var dirs []string
	for _, f := range files {
		if dir := relative(root, filepath.Dir(f)); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return []run{{append([]string{"vet", "-json", "--"}, dirs...), readGoVet}}
}

var lineOfGo = regexp.MustCompile(`^(?:vet: )?([^:\s][^:]*\.go):(\d+):(?:(\d+):)? (.+)$`)

// readGoVet parses vet's output: its own findings are JSON, the compiler's
// errors are lines.
func readGoVet(stdout, stderr []byte) []Diagnostic {
	var found []Diagnostic
	for _, text := range [][]byte{stdout, stderr} {
		for len(text) > 0 {
			line, rest, _ := bytes.Cut(text, []byte("\n"))
			if len(line) > 0 && line[0] == '{' {
				in := json.NewDecoder(bytes.NewReader(text))
				var packages map[string]map[string]json.RawMessage
				if in.Decode(&packages) == nil {
					found = append(found, parseVet(packages)...)
					text = text[in.InputOffset():]
					continue
				}
			}
			if m := lineOfGo.FindSubmatch(line); m != nil {
				found = append(found, Diagnostic{Path: string(m[1]), StartLine: number(m[2]), StartColumn: number(m[3]), Severity: Error, Source: "compiler", Message: string(m[4])})
			}
			text = rest
		}
	}
	return found
}

func parseVet(packages map[string]map[string]json.RawMessage) (found []Diagnostic) {
	for _, analyzers := range packages {
		for name, raw := range analyzers {
			var findings []struct{ Posn, End, Message string }
			if json.Unmarshal(raw, &findings) != nil {
				continue
			}
			for _, d := range findings {
				path, line, column := posn(d.Posn)
				_, endLine, endColumn := posn(d.End)
				found = append(found, Diagnostic{Path: path, StartLine: line, StartColumn: column, EndLine: endLine, EndColumn: endColumn,
					Severity: Warning, Code: name, Message: d.Message})
			}
		}
	}
	return found
}

// posn parses a position as Go prints it: file:line:column.
func posn(text string) (path string, line, column int) {
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		return "", 0, 0
	}
	n := len(parts)
	return strings.Join(parts[:n-2], ":"), number([]byte(parts[n-2])), number([]byte(parts[n-1]))
}

func number(digits []byte) int {
	n, _ := strconv.Atoi(string(digits)) // not a number: 0, which means unknown
	return n
}

func runRuff(root string, files []string) []run {
	return []run{{append([]string{"check", "--output-format", "json", "--no-cache", "--quiet", "--"}, relatives(root, files)...), readRuff}}
}

func readRuff(stdout, _ []byte) []Diagnostic {
	type place struct{ Row, Column int }
	var findings []struct {
		Filename, Message string
		Code              *string
		Location          place
		EndLocation       place `json:"end_location"`
	}
	if json.Unmarshal(stdout, &findings) != nil {
		return nil
	}
	var found []Diagnostic
	for _, d := range findings {
		severity, code := Warning, ""
		if d.Code != nil {
			code = *d.Code
		}
		if code == "" || code == "invalid-syntax" {
			severity = Error
		}
		found = append(found, Diagnostic{Path: d.Filename, StartLine: d.Location.Row, StartColumn: d.Location.Column,
			EndLine: d.EndLocation.Row, EndColumn: d.EndLocation.Column, Severity: severity, Code: code, Message: d.Message, Source: "ruff"})
	}
	return found
}

func runESLint(root string, files []string) []run {
	return []run{{append([]string{"--format", "json", "--no-error-on-unmatched-pattern", "--"}, relatives(root, files)...), readESLint}}
}

func readESLint(stdout, stderr []byte) []Diagnostic {
	var findings []struct {
		FilePath string
		Messages []struct {
			RuleID                           *string
			Severity                         int
			Message                          string
			Line, Column, EndLine, EndColumn int
			Fatal                            bool
		}
	}
	if json.Unmarshal(stdout, &findings) != nil {
		return nil
	}
	var found []Diagnostic
	for _, f := range findings {
		for _, m := range f.Messages {
			d := Diagnostic{Path: f.FilePath, StartLine: m.Line, StartColumn: m.Column, EndLine: m.EndLine, EndColumn: m.EndColumn, Severity: Warning, Message: m.Message, Source: "eslint"}
			if m.Severity == 2 || m.Fatal {
				d.Severity = Error
			}
			if m.RuleID != nil {
				d.Code = *m.RuleID
			}
			found = append(found, d)
		}
	}
	return found
}

func runShellcheck(root string, files []string) []run {
	return []run{{append([]string{"--format=json", "--"}, relatives(root, files)...), readShellcheck}}
}

func readShellcheck(stdout, _ []byte) []Diagnostic {
	var findings []struct {
		File, Level, Message             string
		Line, EndLine, Column, EndColumn int
		Code                             int
	}
	if json.Unmarshal(stdout, &findings) != nil {
		return nil
	}
	var found []Diagnostic
	for _, d := range findings {
		severity := map[string]Severity{"error": Error, "warning": Warning, "info": Information, "style": Hint}[d.Level]
		found = append(found, Diagnostic{Path: d.File, StartLine: d.Line, StartColumn: d.Column, EndLine: d.EndLine, EndColumn: d.EndColumn,
			Severity: severity, Code: "SC" + strconv.Itoa(d.Code), Message: d.Message})
	}
	return found
}

// each makes one run for every file.
func each(files []string, args func(file string) []string, read func(file string, stdout, stderr []byte) []Diagnostic) []run {
	var runs []run
	for _, f := range files {
		runs = append(runs, run{args(f), func(stdout, stderr []byte) []Diagnostic { return read(f, stdout, stderr) }})
	}
	return runs
}

func runBash(_ string, files []string) []run {
	return each(files, func(f string) []string { return []string{"--norc", "-n", "--", f} }, readBash)
}

var lineOfBash = regexp.MustCompile(`: line (\d+): (.+)$`)

func readBash(file string, _, stderr []byte) (found []Diagnostic) {
	for line := range bytes.Lines(stderr) {
		m := lineOfBash.FindSubmatch(bytes.TrimSpace(line))
		if m == nil || bytes.HasPrefix(m[2], []byte("`")) { // the line itself, once more
			continue
		}
		found = append(found, Diagnostic{Path: file, StartLine: number(m[1]), Severity: Error, Message: string(m[2])})
	}
	return found
}

func runNodeCheck(_ string, files []string) []run {
	return each(files, func(f string) []string { return []string{"--check", f} }, readNode)
}

var lineOfNode = regexp.MustCompile(`^(?:file://)?(/.*):(\d+)$`)

func readNode(file string, _, stderr []byte) []Diagnostic {
	d := Diagnostic{Path: file, Severity: Error}
	for line := range bytes.Lines(stderr) {
		line = bytes.TrimRight(line, "\r\n")
		if m := lineOfNode.FindSubmatch(line); m != nil && d.StartLine == 0 {
			d.StartLine = number(m[2])
		}
		if at := bytes.IndexByte(line, '^'); at >= 0 && len(bytes.TrimLeft(line, " \t^")) == 0 {
			d.StartColumn, d.EndLine, d.EndColumn = at+1, d.StartLine, len(line)+1
		}
		if bytes.HasPrefix(line, []byte("SyntaxError: ")) {
			d.Message = string(line)
			return []Diagnostic{d}
		}
	}
	return nil
}

// syntax is a Python program that prints syntax errors and compiler warnings as
// one JSON object per line, and writes no bytecode.
const syntax = `import json, sys, tokenize, warnings
for name in sys.argv[1:]:
    def say(severity, line, column, end, end_column, message):
        print(json.dumps({"file": name, "severity": severity, "line": line, "column": column, "end": end, "endColumn": end_column, "message": message}))
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with tokenize.open(name) as f:
                compile(f.read(), name, "exec", dont_inherit=True)
        for w in seen:
            say(2, w.lineno, 0, 0, 0, str(w.message))
    except SyntaxError as e:
        say(1, e.lineno or 1, e.offset or 0, getattr(e, "end_lineno", 0) or 0, getattr(e, "end_offset", 0) or 0, type(e).__name__ + ": " + str(e.msg))
    except Exception as e:
        say(1, 1, 0, 0, 0, type(e).__name__ + ": " + str(e))
`

func runPython(_ string, files []string) []run {
	return []run{{append([]string{"-I", "-B", "-c", syntax}, files...), readPython}}
}

func readPython(stdout, _ []byte) (found []Diagnostic) {
	for line := range bytes.Lines(stdout) {
		var d struct {
			File, Message                string
			Severity                     Severity
			Line, Column, End, EndColumn int
		}
		if json.Unmarshal(line, &d) == nil {
			found = append(found, Diagnostic{Path: d.File, StartLine: d.Line, StartColumn: d.Column, EndLine: d.End, EndColumn: d.EndColumn, Severity: d.Severity, Message: d.Message})
		}
	}
	return found
}
