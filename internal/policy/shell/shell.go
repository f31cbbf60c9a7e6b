// Package shell judges command lines of bash: whether every program that a line
// would start is on an allow list written by a person. A wrong yes is its worst
// possible error, so it parses the line with bash's grammar and refuses
// everything that it cannot decide: words known only at run time, redirections
// into files, changes to the shell itself, and options that make a program
// start another.
//
// It looks at the line alone. It does not know what an allowed program does
// because of its own configuration (npm's scripts), nor what earlier lines did to
// the session; the sandbox covers these. For git, whose configuration sandboxed
// commands can write, it says in which folders the line runs it. It runs nothing
// and reads no files.
package shell

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of a line that is judged. Judging takes time that grows with the square
// of the nesting.
const (
	MaxLine     = 64 << 10 // bytes
	maxGroups   = 2000     // opening parentheses and braces, also in quotes
	maxWrappers = 16       // wrappers of one command, as in `nice env timeout 1 ls`
)

// A Verdict is the decision about a line.
type Verdict struct {
	// Allowed is true if every command of the line is allowed. A line without
	// commands, such as a comment, is not allowed.
	Allowed bool
	// Commands are the simple commands of the line in order, including those in
	// substitutions and wrappers.
	Commands []Command
	// Why is the first reason against a line that is not allowed.
	Why string
	// Git says where the line runs git; nil if the line does not run git.
	Git *Git
}

// A Command is one simple command of a line.
type Command struct {
	Text    string // as written
	Allowed bool
	Entry   string // the entry that allows the command
	Why     string // why the command is not allowed
}

// Judge reports whether the list allows the line. It never fails: a line that
// is not valid bash is not allowed.
func (l *List) Judge(line string) Verdict {
	if why := unreadable(line); why != "" {
		return Verdict{Why: why}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return Verdict{Why: fmt.Sprintf("this is not valid bash: %v", err)}
	}
	j := &judge{list: l, line: line}
	j.stmts(file.Stmts)
	v := Verdict{Commands: j.commands, Why: j.why}
	if j.runsGit {
		v.Git = &j.git
	}
	if v.Why == "" && len(v.Commands) == 0 {
		v.Why = "it contains no command"
	}
	v.Allowed = v.Why == ""
	return v
}

// commentGoesOn matches text that may be a comment that ends in a backslash.
var commentGoesOn = regexp.MustCompile(`#[^\n]*\\\n`)

// wordGoesOn matches a line continuation in the middle of a word, such as
// between $ and (, or at the start of a line, where it may end a here-document.
var wordGoesOn = regexp.MustCompile(`(?:^|[^ \t])\\\n`)

// unreadable returns why a line must not be parsed, or "": bash and the parser
// may disagree about the meaning of a character.
func unreadable(line string) string {
	switch {
	case len(line) > MaxLine:
		return fmt.Sprintf("the line is longer than %d bytes", MaxLine)
	case strings.Count(line, "(")+strings.Count(line, "{") > maxGroups:
		return fmt.Sprintf("the line has more than %d parentheses and braces", maxGroups)
	case !utf8.ValidString(line):
		return "the line is not valid UTF-8"
	case wordGoesOn.MatchString(line):
		return "a backslash before a newline joins two pieces of a word: bash may interpret them differently than the parser"
	case strings.Contains(line, "<<") && strings.Contains(line, "\\\n"):
		return "a backslash before a newline in a line with a here-document: bash may end the here-document elsewhere than the parser"
	case commentGoesOn.MatchString(line):
		return "a comment ends in a backslash: bash ends the comment there, and the parser continues it"
	}
	for _, r := range line {
		switch {
		case r == '\n' || r == '\t':
		case unicode.IsControl(r):
			return fmt.Sprintf("the line contains the control character %U", r)
		case r != ' ' && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)):
			return fmt.Sprintf("the line contains the invisible character %U", r)
		}
	}
	return ""
}

// judge judges one command line.
type judge struct {
	list     *List
	line     string
	commands []Command
	why      string // the first reason against the line
	inside   int    // nesting depth of substitutions
	wrapped  int    // number of wrappers around the current command
	git      Git
	runsGit  bool
}

// substitution judges the commands of $(…), `…` and <(…).
func (j *judge) substitution(list []*syntax.Stmt) {
	j.inside++
	j.stmts(list)
	j.inside--
}

// refuse records a reason against the line. Only the first is kept.
func (j *judge) refuse(format string, args ...any) {
	if j.why == "" {
		j.why = fmt.Sprintf(format, args...)
	}
}

// text returns the source text of a node.
func (j *judge) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(j.line)) {
		return ""
	}
	return j.line[from:to]
}
