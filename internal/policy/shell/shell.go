// Package shell judges lines of bash: whether every program that a line would
// start is on a list that a person wrote. A wrong yes is the worst mistake that
// it can make, so it reads a line as bash's grammar has it, and says no to
// whatever it cannot read: words that are known only when the line runs,
// redirections into files, changes to the shell itself, options that have a
// program start another.
//
// It looks at a line and at nothing else. It does not know what a program on
// the list does by its own configuration (git's hooks, npm's scripts), nor what
// an earlier line has done to the session; the sandbox is there for that. It
// runs nothing and reads no file.
package shell

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// MaxLine is the length, in bytes, of the longest line that is judged.
const MaxLine = 64 << 10

// A Verdict is what a list says of a line.
type Verdict struct {
	// Allowed is true where every command of the line is allowed. A line without
	// any command, such as a comment, is not.
	Allowed bool
	// Commands are the simple commands of the line in their order, those of
	// substitutions and wrappers too.
	Commands []Command
	// Why says, where the line is not allowed, what stands against it first.
	Why string
}

// A Command is one simple command of a line.
type Command struct {
	Text    string // as it was written
	Allowed bool
	Entry   string // of the list that allows it
	Why     string // it is not allowed
}

// Judge says whether the list allows the line. It never fails: what is not
// bash is not allowed.
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
	if v.Why == "" && len(v.Commands) == 0 {
		v.Why = "there is no command in it"
	}
	v.Allowed = v.Why == ""
	return v
}

// commentGoesOn finds what may be a comment that ends in a backslash.
var commentGoesOn = regexp.MustCompile(`#[^\n]*\\\n`)

// wordGoesOn finds a continuation in the middle of a word, such as of $ and (,
// and one at the beginning of a line, which may end a here-document.
var wordGoesOn = regexp.MustCompile(`(?:^|[^ \t])\\\n`)

// unreadable says why a line is not to be given to the parser: where bash and
// the parser may differ about what a character means.
func unreadable(line string) string {
	switch {
	case len(line) > MaxLine:
		return fmt.Sprintf("the line is longer than %d bytes", MaxLine)
	case !utf8.ValidString(line):
		return "the line is not valid UTF-8"
	case wordGoesOn.MatchString(line):
		return "a backslash before a newline joins two pieces of a word: the parser may take them for something else than bash does"
	case strings.Contains(line, "<<") && strings.Contains(line, "\\\n"):
		return "a backslash before a newline in a line with a here-document: the parser may see its end elsewhere than bash does"
	case commentGoesOn.MatchString(line):
		return "a comment ends in a backslash: to bash the next line is another, to the parser it goes on"
	}
	for _, r := range line {
		switch {
		case r == '\n' || r == '\t':
		case unicode.IsControl(r):
			return fmt.Sprintf("the line holds the control character %U", r)
		case r != ' ' && (unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)):
			return fmt.Sprintf("the line holds the invisible character %U", r)
		}
	}
	return ""
}

// judge walks one line.
type judge struct {
	list     *List
	line     string
	commands []Command
	why      string // the first reason against the line
	inside   int    // how many substitutions it is in
}

// substitution judges the commands of $(…), `…` and <(…).
func (j *judge) substitution(list []*syntax.Stmt) {
	j.inside++
	j.stmts(list)
	j.inside--
}

// refuse notes a reason against the line. Only the first is kept.
func (j *judge) refuse(format string, args ...any) {
	if j.why == "" {
		j.why = fmt.Sprintf(format, args...)
	}
}

// text is what the line says at a node.
func (j *judge) text(n syntax.Node) string {
	from, to := n.Pos().Offset(), n.End().Offset()
	if from > to || to > uint(len(j.line)) {
		return ""
	}
	return j.line[from:to]
}
