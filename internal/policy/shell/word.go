package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// kind is how much of a word is known before the line runs.
type kind int

const (
	literal  kind = iota // the whole word
	filename             // expands to file names, none of which starts with a dash
	dynamic              // nothing
)

// word is a word of a command after quote removal.
type word struct {
	kind  kind
	value string // value of a literal
	text  string // as written
}

// word evaluates a word, and judges the commands in it.
func (j *judge) word(w *syntax.Word) word {
	r := wordReader{judge: j}
	for _, p := range w.Parts {
		r.part(p, false)
	}
	out := word{kind: literal, value: r.value.String(), text: j.text(w)}
	switch {
	case r.dynamic:
		out.kind = dynamic
	case out.text == "[" || out.text == "]": // the command [, and its closing ]
	case r.glob && r.dashFree:
		out.kind = filename
	case r.glob:
		out.kind = dynamic
	case strings.Contains(r.bare.String(), "{") && strings.ContainsAny(r.bare.String(), ",."):
		out.kind = dynamic // a brace expansion may become several words
	}
	return out
}

// wordReader assembles the parts of a word.
type wordReader struct {
	judge    *judge
	value    strings.Builder
	bare     strings.Builder // the unquoted text
	dynamic  bool
	glob     bool
	dashFree bool // the text before the first glob is not empty and does not start with a dash
}

func (r *wordReader) part(p syntax.WordPart, quoted bool) {
	switch p := p.(type) {
	case *syntax.Lit:
		if quoted {
			r.quoted(p.Value)
		} else {
			r.unquoted(p.Value)
		}
	case *syntax.SglQuoted:
		if p.Dollar && strings.Contains(p.Value, `\`) {
			r.dynamic = true // bash's own escapes in $'…'
		}
		r.value.WriteString(p.Value)
	case *syntax.DblQuoted:
		if p.Dollar {
			r.dynamic = true // a translation
		}
		for _, q := range p.Parts {
			r.part(q, true)
		}
	case *syntax.CmdSubst:
		r.dynamic = true
		if p.TempFile || p.ReplyVar {
			r.judge.refuse("`%s` is not analyzed", r.judge.text(p))
		}
		if p.Backquotes {
			r.judge.backquotes(p)
		}
		r.judge.substitution(p.Stmts)
	case *syntax.ProcSubst:
		r.dynamic = true
		r.judge.substitution(p.Stmts)
	case *syntax.ParamExp:
		r.dynamic = true
		r.judge.parameter(p)
	default:
		r.dynamic = true
		r.judge.refuse("`%s` is expanded by the shell when it runs, which may start programs", r.judge.text(p))
	}
}

// unquoted reads text outside of quotes, where a backslash quotes any
// character.
func (r *wordReader) unquoted(s string) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				r.value.WriteByte(s[i])
			}
			continue
		case c == '*' || c == '?' || c == '[':
			if !r.glob {
				before := r.value.String()
				r.glob, r.dashFree = true, before != "" && before[0] != '-'
			}
		case c == '~' && r.value.Len() == 0:
			r.glob, r.dashFree = true, true // a home folder
		case c >= 0x80:
			r.judge.refuse("`%s` has the letter of another script outside of quotes", s)
		}
		r.value.WriteByte(c)
		r.bare.WriteByte(c)
	}
}

// quoted reads text inside of double quotes.
func (r *wordReader) quoted(s string) {
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		r.value.WriteByte(s[i])
	}
}

// backquotes refuses backquoted commands that bash parses differently from
// $(…), because it reads them twice: their end, quotes and comments.
func (j *judge) backquotes(p *syntax.CmdSubst) {
	text := j.text(p)
	if len(text) < 2 || strings.ContainsAny(text[1:len(text)-1], "'\"\\`#") {
		j.refuse("%s contains quotes that bash may interpret differently than the parser: write $(…)", text)
	}
}

// parameter allows the forms of ${…} that start nothing and set nothing.
func (j *judge) parameter(p *syntax.ParamExp) {
	if p.Param == nil || p.Excl || p.Width || p.IsSet || p.Flags != nil || p.NestedParam != nil || p.Index != nil ||
		len(p.Modifiers) > 0 || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		j.refuse("`%s` is expanded by the shell when it runs, which may start programs", j.text(p))
		return
	}
	if p.Exp == nil {
		return
	}
	if text := j.text(p); strings.ContainsAny(text, "'\"\\`") || text == "" {
		// The effect of a quote inside depends on the quotes around the
		// expansion and on the operator, which the parser ignores.
		j.refuse("`%s` contains quotes that bash may interpret differently than the parser", text)
	}
	switch p.Exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.RemSmallSuffix, syntax.RemLargeSuffix, syntax.RemSmallPrefix, syntax.RemLargePrefix:
		if p.Exp.Word != nil {
			j.word(p.Exp.Word)
		}
	default:
		j.refuse("`%s` is expanded by the shell when it runs, which may start programs or set variables", j.text(p))
	}
}
