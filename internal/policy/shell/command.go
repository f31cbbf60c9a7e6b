package shell

import (
	"fmt"
	"path"
	"strings"
)

// command judges one simple command.
func (j *judge) command(text string, words []word) {
	j.visit(words)
	entry, why := j.judgeCommand(words)
	if why == "-" { // a wrapper: the command that it runs has been judged instead
		return
	}
	j.commands = append(j.commands, Command{Text: text, Allowed: why == "", Entry: entry, Why: why})
	if why != "" {
		j.refuse("`%s`: %s", firstLine(text), why)
	}
}

// judgeCommand returns the entry that allows the command, or the reason why the command
// is not allowed. The reason is "-" for a wrapper whose inner command was judged.
func (j *judge) judgeCommand(words []word) (entry, why string) {
	name := words[0]
	switch {
	case name.kind != literal:
		return "", "which program it starts is known only when it runs"
	case name.value == "":
		return "", "it names no program"
	case changesShell[name.value]:
		return "", name.value + " changes the shell itself, or makes it read commands from elsewhere"
	case strings.Contains(name.value, "="):
		return "", "it looks like an assignment"
	}
	e, spelled := j.list.match(words)
	whole := e.text != "" && !e.globs && spelled == len(words)
	if line, ok := innerLine(words); ok && !whole {
		j.inner(line)
		return "", "-"
	}
	if w, ok := wrappers[name.value]; ok && !whole {
		inner, why := w(words[1:])
		if why != "" {
			return "", why
		}
		if len(inner) > 0 && j.wrapped == maxWrappers {
			return "", fmt.Sprintf("it has more than %d wrappers", maxWrappers)
		}
		if len(inner) > 0 {
			j.wrapped++
			j.command(spoken(inner), inner)
			j.wrapped--
			return "", "-"
		}
	}
	if e.text == "" {
		return "", "no entry of the allowlist allows it"
	}
	if why := danger(name.value, words, spelled); why != "" {
		return "", why
	}
	return e.text, ""
}

// innerLine returns the command line of bash -c.
func innerLine(words []word) (string, bool) {
	if len(words) < 3 || words[0].value != "bash" || words[1].value != "-c" || words[1].kind != literal || words[2].kind != literal {
		return "", false
	}
	return words[2].value, true
}

// inner judges a command line that is part of another.
func (j *judge) inner(line string) {
	v := j.list.Judge(line)
	j.commands = append(j.commands, v.Commands...)
	if v.Git != nil {
		j.runsGit = true
		j.git.Folders = append(j.git.Folders, v.Git.Folders...)
		j.git.Elsewhere = j.git.Elsewhere || v.Git.Elsewhere
	}
	if !v.Allowed {
		j.refuse("%s", v.Why)
	}
}

// spoken returns words as written in the line.
func spoken(words []word) string {
	var out []string
	for _, w := range words {
		out = append(out, w.text)
	}
	return strings.Join(out, " ")
}

// danger returns why a command that matches an entry is still not allowed, or "": the
// arguments after those in the entry could start another program or write a file, or are
// unknown. spelled is how many words the entry contains.
func danger(name string, words []word, spelled int) string {
	p := programs[path.Base(name)]
	switch {
	case p.inert:
		return ""
	case p.afterFirst && len(words) > 1 && words[1].kind == literal && !strings.HasPrefix(words[1].value, "-"):
		return p.check(values(words[1:]), spelled-1)
	case p.stdin && len(words) > 1 && standardInput.MatchString(words[1].value):
		return path.Base(name) + " runs what it reads"
	case p.stdin && (len(words) == 1 || strings.HasPrefix(words[1].value, "-") && words[1].value != "-c"):
		return path.Base(name) + " runs what it reads"
	case p.runner && spelled > 1 && !strings.HasPrefix(words[1].value, "-"):
		return danger(words[1].value, words[1:], spelled-1)
	case p.runner && spelled < len(words):
		return path.Base(name) + " runs the program that it is given: an entry has to name that program too"
	}
	for _, w := range words[spelled:] {
		switch w.kind {
		case dynamic:
			return fmt.Sprintf("%s is known only when it runs, and may be an option that starts a program", w.text)
		case filename:
			if p.spelled {
				return fmt.Sprintf("%s is known only when it runs", w.text)
			}
		}
	}
	if p.spelled && spelled < len(words) {
		return path.Base(name) + " runs the program that it is given: it is allowed only if an entry spells it out"
	}
	for _, w := range words[spelled:] {
		if why := p.option(w.value); why != "" {
			return why
		}
	}
	if p.check != nil {
		return p.check(values(words[1:]), spelled-1)
	}
	return ""
}

func values(words []word) []string {
	var out []string
	for _, w := range words {
		out = append(out, w.value)
	}
	return out
}

// program describes a program that may start others.
type program struct {
	inert      bool     // none of its arguments starts a program or writes a file
	afterFirst bool     // like inert, unless its first argument is an option
	runner     bool     // its arguments are another command
	spelled    bool     // it can run arbitrary code, so an entry must contain all arguments
	stdin      bool     // it executes its standard input unless a file is given
	long       []string // long options, without dashes, that start a program or write a file
	short      string   // short options that do so, also combined with others
	words      []string // whole arguments that do so
	begins     []string // prefixes of arguments that do so
	// check applies rules about arguments that the lists cannot express. from
	// is the index of the first argument that the entry does not contain.
	check func(args []string, from int) string
}

// option returns the problem with one argument, or "".
func (p program) option(arg string) string {
	for _, w := range p.words {
		if arg == w {
			return arg + " may start a program, or write a file"
		}
	}
	for _, b := range p.begins {
		if strings.HasPrefix(arg, b) {
			return fmt.Sprintf("%s may start a program, or write a file", b)
		}
	}
	if name, ok := strings.CutPrefix(arg, "--"); ok {
		name, _, _ = strings.Cut(name, "=")
		for _, l := range p.long {
			if name != "" && strings.HasPrefix(l, name) { // GNU programs accept abbreviated options
				return "--" + l + " may start a program, or write a file"
			}
		}
		return ""
	}
	if len(arg) > 1 && arg[0] == '-' && strings.ContainsAny(arg[1:], p.short) {
		return arg + " may start a program, or write a file"
	}
	return ""
}
