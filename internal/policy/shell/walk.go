package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func (j *judge) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		j.stmt(s)
	}
}

func (j *judge) stmt(s *syntax.Stmt) {
	if s.Coprocess || s.Disown {
		j.refuse("a coprocess is not analyzed")
	}
	for _, r := range s.Redirs {
		j.redirect(r)
	}
	switch c := s.Cmd.(type) {
	case nil:
	case *syntax.CallExpr:
		j.call(c)
	case *syntax.BinaryCmd:
		j.stmt(c.X)
		j.stmt(c.Y)
	case *syntax.Block:
		j.stmts(c.Stmts)
	case *syntax.Subshell:
		j.stmts(c.Stmts)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			j.stmt(c.Stmt)
		}
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			j.stmts(c.Cond)
			j.stmts(c.Then)
		}
	case *syntax.WhileClause:
		j.stmts(c.Cond)
		j.stmts(c.Do)
	case *syntax.ForClause:
		j.loop(c)
	case *syntax.CaseClause:
		j.cases(c)
	default:
		j.refuse("`%s` changes the shell, or is not analyzed", firstLine(j.text(s)))
	}
}

func (j *judge) loop(c *syntax.ForClause) {
	each, ok := c.Loop.(*syntax.WordIter)
	switch {
	case !ok || c.Select:
		j.refuse("a loop with arithmetic or select is not analyzed")
		return
	case !harmlessName(each.Name.Value):
		j.refuse("a loop sets %s, which other programs may obey", each.Name.Value)
	}
	for _, w := range each.Items {
		j.word(w)
	}
	j.stmts(c.Do)
}

func (j *judge) cases(c *syntax.CaseClause) {
	j.word(c.Word)
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			j.word(p)
		}
		j.stmts(item.Stmts)
	}
}

// delimiter matches here-document delimiters that all parsers read alike. In a
// substitution, bash also accepts the E of "E)" as one.
var delimiter = regexp.MustCompile(`^(\w+|'\w+'|"\w+"|\\\w+)$`)

// endsEarly reports whether bash would end a here-document earlier than the
// parser: bash looks only at lines, and the parser continues through an
// expansion.
func (j *judge) endsEarly(r *syntax.Redirect) bool {
	end := strings.Trim(j.text(r.Word), `'"\`)
	lines := strings.Split(strings.TrimSuffix(j.text(r.Hdoc), "\n"), "\n")
	return slices.ContainsFunc(lines[:len(lines)-1], func(line string) bool { return strings.TrimLeft(line, "\t") == end })
}

var digits = regexp.MustCompile(`^[0-9]+$`)

// redirect allows redirections that read files, join outputs, or discard output.
func (j *judge) redirect(r *syntax.Redirect) {
	if r.N != nil && !digits.MatchString(r.N.Value) {
		j.refuse("a redirection sets the variable %s", r.N.Value)
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if j.inside > 0 || !delimiter.MatchString(j.text(r.Word)) || r.Hdoc != nil && j.endsEarly(r) {
			j.refuse("the end of the here-document of `%s` can be interpreted in more than one way", firstLine(j.text(r)))
		}
		if r.Hdoc != nil {
			j.word(r.Hdoc)
		}
		return
	case syntax.WordHdoc:
		j.word(r.Word)
		return
	}
	w := j.word(r.Word)
	if w.kind != literal {
		j.refuse("what `%s` redirects to is known only when it runs", j.text(r))
		return
	}
	switch r.Op {
	case syntax.DplIn, syntax.DplOut:
		if n := strings.TrimSuffix(w.value, "-"); n != "" && !digits.MatchString(n) {
			j.refuse("`%s` writes a file", j.text(r))
		}
	case syntax.RdrIn:
		if strings.HasPrefix(w.value, "/dev/") && w.value != "/dev/null" && w.value != "/dev/stdin" {
			j.refuse("`%s` reads a device, or opens a connection", j.text(r))
		}
	default:
		if w.value != "/dev/null" {
			j.refuse("`%s` writes a file", j.text(r))
		}
	}
}

// harmless are variables that no program interprets as a program, a path, an
// option or a library.
var harmless = map[string]bool{
	"CI": true, "NODE_ENV": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true, "TZ": true, "LC_ALL": true, "LANG": true,
	"COLUMNS": true, "LINES": true, "PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "GOOS": true, "GOARCH": true,
	"CGO_ENABLED": true, "RUST_BACKTRACE": true, "RUST_LOG": true,
}

// plainName matches typical names of local variables. Common environment
// variables do not match.
var plainName = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

func harmlessName(name string) bool {
	return harmless[name] || plainName.MatchString(name) && name != "histchars"
}

// harmlessValue reports whether the value is harmless too: a locale or a time zone may
// also be the path of a file.
func harmlessValue(name string, w word) bool {
	if name != "LC_ALL" && name != "LANG" && name != "TZ" {
		return true
	}
	return w.kind == literal && !strings.HasPrefix(w.value, "/") && !strings.HasPrefix(w.value, ":") && !strings.Contains(w.value, "..")
}

// call judges a simple command, and the variables set before it.
func (j *judge) call(c *syntax.CallExpr) {
	for _, a := range c.Assigns {
		switch {
		case a.Append || a.Naked || a.Index != nil || a.Array != nil || a.Name == nil:
			j.refuse("`%s` is not a plain assignment", j.text(a))
		case !harmlessName(a.Name.Value):
			j.refuse("%s is set, which other programs may obey", a.Name.Value)
		}
		if a.Value == nil {
			continue
		}
		if w := j.word(a.Value); a.Name != nil && !harmlessValue(a.Name.Value, w) {
			j.refuse("%s may be the path of a file that programs load", j.text(a))
		}
	}
	if len(c.Args) == 0 {
		return
	}
	words := make([]word, len(c.Args))
	for i, w := range c.Args {
		words[i] = j.word(w)
	}
	text := strings.TrimSpace(j.line[c.Args[0].Pos().Offset():c.Args[len(c.Args)-1].End().Offset()])
	j.command(text, words)
}

func firstLine(s string) string {
	line, rest, cut := strings.Cut(s, "\n")
	if cut && rest != "" {
		return line + " …"
	}
	return line
}
