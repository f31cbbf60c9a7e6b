package ripgrep

import (
	"bytes"
	"errors"
	"iter"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// matcher finds matches in text.
type matcher struct {
	re *regexp.Regexp
	// literal is part of every match; nil if no such text is known. Searching for literal
	// is much faster than matching the expression.
	literal []byte
	lines   bool // no match spans several lines
}

func newMatcher(o options) (*matcher, error) {
	flags := "m"
	if o.ignoreCase {
		flags += "i"
	}
	if o.multiline && o.dotall {
		flags += "s"
	}
	if _, err := syntax.Parse(o.pattern, syntax.Perl); err != nil {
		return nil, parseError(o.pattern, err)
	}
	tree, err := syntax.Parse("(?"+flags+":"+widen(o.pattern)+")", syntax.Perl)
	if err != nil {
		return nil, parseError(o.pattern, err)
	}
	if !o.multiline && hasNewline(tree) {
		return nil, wrong(`the literal '"\n"' is not allowed in a regex`)
	}
	m := &matcher{re: regexp.MustCompile(tree.String()), lines: !o.multiline}
	m.literal = []byte(literalOf(tree.Simplify()))
	return m, nil
}

// parseErrors are rg's messages for the errors of package syntax.
var parseErrors = map[syntax.ErrorCode]string{
	syntax.ErrMissingParen:          "unclosed group",
	syntax.ErrUnexpectedParen:       "unopened group",
	syntax.ErrMissingBracket:        "unclosed character class",
	syntax.ErrMissingRepeatArgument: "repetition operator missing expression",
	syntax.ErrInvalidRepeatSize:     "invalid repetition count range",
	syntax.ErrTrailingBackslash:     "incomplete escape sequence, reached end of pattern prematurely",
}

// parseError returns the error for an invalid pattern. Like rg, it marks the position,
// if that is known.
func parseError(pattern string, err error) error {
	var bad *syntax.Error
	if !errors.As(err, &bad) {
		return wrong("regex parse error:\n    %s\nerror: %v", pattern, err)
	}
	at, length := strings.Index(pattern, bad.Expr), len(bad.Expr)
	words := parseErrors[bad.Code]
	switch {
	case bad.Code == syntax.ErrMissingParen:
		at, length = strings.LastIndexByte(pattern, '('), 1
	case strings.HasPrefix(bad.Expr, "(?=") || strings.HasPrefix(bad.Expr, "(?!") || strings.HasPrefix(bad.Expr, "(?<"):
		words = "look-around, including look-ahead and look-behind, is not supported"
	case words == "":
		words = bad.Code.String()
	}
	mark := ""
	if at >= 0 && length > 0 {
		mark = "    " + strings.Repeat(" ", utf8.RuneCountInString(pattern[:at])) + strings.Repeat("^", length) + "\n"
	}
	return wrong("regex parse error:\n    %s\n%serror: %s", pattern, mark, words)
}

// widen makes \d, \w and \s match Unicode characters, as rg does.
func widen(pattern string) string {
	if !strings.ContainsRune(pattern, '\\') {
		return pattern
	}
	inside := map[byte]string{'d': `\p{Nd}`, 'w': `\pL\pM\p{Nd}\p{Nl}\p{Pc}`, 's': "\\s\\x0b\\x{85}\\p{Z}"}
	outside := map[byte]string{'D': `\P{Nd}`, 'W': `[^\pL\pM\p{Nd}\p{Nl}\p{Pc}]`, 'S': "[^\\s\\x0b\\x{85}\\p{Z}]"}
	var b strings.Builder
	class := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '\\' && i+1 < len(pattern) {
			i++
			next := pattern[i]
			switch in, out := inside[next], outside[next]; {
			case in != "" && class:
				b.WriteString(in)
			case in != "":
				b.WriteString("[" + in + "]")
			case out != "" && !class:
				b.WriteString(out)
			default:
				b.WriteString(pattern[i-1 : i+1])
			}
			continue
		}
		switch {
		case c == '[' && !class:
			class = true
			if rest := pattern[i+1:]; strings.HasPrefix(rest, "^]") || strings.HasPrefix(rest, "]") { // a literal bracket
				n := strings.IndexByte(rest, ']') + 1
				b.WriteString(pattern[i : i+1+n])
				i += n
				continue
			}
		case c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if end := strings.Index(pattern[i:], ":]"); end > 0 {
				b.WriteString(pattern[i : i+end+2])
				i += end + 1
				continue
			}
		case c == ']':
			class = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// hasNewline reports whether an expression contains a line feed literally.
func hasNewline(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && strings.ContainsRune(string(re.Rune), '\n') {
		return true
	}
	for _, sub := range re.Sub {
		if hasNewline(sub) {
			return true
		}
	}
	return false
}

// literalOf returns the longest text that it can prove to be in every match of the
// expression.
func literalOf(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 || strings.ContainsRune(string(re.Rune), utf8.RuneError) {
			return ""
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return literalOf(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return literalOf(re.Sub[0])
		}
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if s := literalOf(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	default:
	}
	return ""
}

// matches returns the matches in a text of whole lines. Each match is given by the
// bounds of its lines, without the last line feed.
func (m *matcher) matches(text []byte) iter.Seq2[int, int] {
	switch {
	case !m.lines:
		return func(yield func(int, int) bool) { m.across(text, yield) }
	case len(m.literal) > 0:
		return func(yield func(int, int) bool) { m.withLiteral(text, yield) }
	}
	return func(yield func(int, int) bool) {
		for start, end := 0, 0; start < len(text); start = end + 1 {
			_, end = lineAround(text, start, start)
			if m.re.Match(text[start:end]) && !yield(start, end) {
				return
			}
		}
	}
}

// withLiteral matches only the lines that contain the literal.
func (m *matcher) withLiteral(text []byte, yield func(start, end int) bool) {
	for from := 0; from < len(text); {
		at := bytes.Index(text[from:], m.literal)
		if at < 0 {
			return
		}
		start, end := lineAround(text, from+at, from+at)
		if m.re.Match(text[start:end]) && !yield(start, end) {
			return
		}
		from = end + 1
	}
}

// across finds matches that may span lines. It joins a match to the previous match if it
// begins in the previous match's last line.
func (m *matcher) across(text []byte, yield func(start, end int) bool) {
	if !bytes.Contains(text, m.literal) {
		return
	}
	start, end, after := -1, -1, 0 // of the lines found so far; matches begin at after or later
	from, most := 0, 256
	for from < len(text) {
		found := m.re.FindAllIndex(text[from:], most)
		fresh := false
		for _, at := range found {
			first, last := from+at[0], from+at[1]
			if first < after || first == len(text) && text[len(text)-1] == '\n' {
				continue // reported already, or behind the last line
			}
			fresh, after = true, max(last, first+1)
			s, e := lineAround(text, first, max(first, last-1))
			if start >= 0 && first <= end {
				end = max(end, e)
				continue
			}
			if start >= 0 && !yield(start, end) {
				return
			}
			start, end = s, e
		}
		if len(found) < most {
			break
		}
		if !fresh { // all matches are in one line
			most *= 2
		}
		from, _ = lineAround(text, min(after, len(text)-1), min(after, len(text)-1))
	}
	if start >= 0 {
		yield(start, end)
	}
}

// lineAround returns the bounds of the lines that contain text[first] to
// text[last], without the last line feed.
func lineAround(text []byte, first, last int) (start, end int) {
	start = bytes.LastIndexByte(text[:first], '\n') + 1
	if end = bytes.IndexByte(text[last:], '\n'); end < 0 {
		return start, len(text)
	}
	return start, last + end
}
