package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"aloft/internal/policy/pattern"
)

// A List is a list of allowed commands. It is safe for concurrent use.
type List struct {
	entries []entry
}

// entry is one entry of a list: either the first words of a command, or a program with a
// glob for its arguments (base:args-glob).
type entry struct {
	text  string
	words []string
	glob  string // glob for the arguments, if globs is set
	globs bool
}

// Compile compiles the entries of terminalAllowlist. An entry that names no
// program, or contains more than plain words, allows nothing.
func Compile(entries []string) *List {
	l := &List{}
	for _, text := range entries {
		text = strings.TrimSpace(text)
		e := entry{text: text}
		base, glob, colon := strings.Cut(text, ":")
		if colon && base != "" && !strings.ContainsAny(base, " \t'\"\\/=") {
			e.words, e.glob, e.globs = []string{base}, strings.TrimSpace(glob), true
		} else {
			e.words = literalWords(text)
		}
		if len(e.words) > 0 {
			l.entries = append(l.entries, e)
		}
	}
	return l
}

// literalWords returns the words of a command that consists only of literal words, or
// nil for any other text.
func literalWords(text string) []string {
	if unreadable(text) != "" {
		return nil
	}
	var words []string
	j := &judge{list: &List{}, line: text}
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return nil
		}
		got := j.word(w)
		if got.kind != literal {
			return nil
		}
		words = append(words, got.value)
	}
	if j.why != "" {
		return nil
	}
	return words
}

// match returns the entry that allows the command, and how many words of the
// command the entry contains. If several match, it returns the one with the
// most words.
func (l *List) match(words []word) (best entry, spelled int) {
	for _, e := range l.entries {
		if len(e.words) <= spelled || !e.covers(words) {
			continue
		}
		best, spelled = e, len(e.words)
	}
	return best, spelled
}

func (e entry) covers(words []word) bool {
	if len(words) < len(e.words) {
		return false
	}
	for i, w := range e.words {
		if words[i].kind != literal || words[i].value != w {
			return false
		}
	}
	if !e.globs {
		return true
	}
	var args []string
	for _, w := range words[1:] {
		if w.kind != literal { // a word that is unknown matches only a glob that matches everything
			return e.glob == "*"
		}
		args = append(args, w.value)
	}
	return pattern.Match(e.glob, strings.Join(args, " "))
}
