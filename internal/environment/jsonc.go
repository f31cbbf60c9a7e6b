package environment

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxDepth is the maximum nesting of values. The deepest key of the format has
// four levels.
const maxDepth = 64

// node is a value and its offset. Its value is nil, a bool, a json.Number, a
// string, a []node or a []member.
type node struct {
	value  any
	offset int // offset in the file
}

// member is a key of an object, in the order of the file.
type member struct {
	key    string
	offset int
	value  node
}

// syntaxError describes a syntax error to the author of the file.
type syntaxError struct {
	offset  int
	message string
	instead string
}

func (e *syntaxError) Error() string { return e.message }

// reader parses JSON with comments and trailing commas. Existing parsers do not suffice
// because every error needs a position and a suggestion.
type reader struct {
	text  string
	pos   int
	depth int
}

// readJSONC parses a single value.
func readJSONC(text string) (n node, err *syntaxError) {
	r := &reader{text: text}
	defer func() {
		switch e := recover().(type) {
		case nil:
		case *syntaxError:
			err = e
		default:
			panic(e)
		}
	}()
	r.skip()
	if !r.isAt('{') && !r.isAt('[') {
		r.fail(r.pos, "write one object, as in {\"install\": \"npm ci\"}", "not a JSON object: it begins with %s", r.context())
	}
	n = r.read()
	r.skip()
	if r.pos < len(r.text) {
		r.fail(r.pos, "remove it; the file contains one object, from { to }", "%s after the end", r.context())
	}
	return n, nil
}

func (r *reader) fail(at int, instead, format string, args ...any) {
	panic(&syntaxError{offset: at, message: fmt.Sprintf(format, args...), instead: instead})
}

// skip skips white space and comments.
func (r *reader) skip() {
	for r.pos < len(r.text) {
		rest := r.text[r.pos:]
		switch {
		case strings.ContainsRune(" \t\r\n", rune(rest[0])):
			r.pos++
		case strings.HasPrefix(rest, "//"):
			if i := strings.IndexAny(rest, "\r\n"); i >= 0 {
				r.pos += i
			} else {
				r.pos = len(r.text)
			}
		case strings.HasPrefix(rest, "/*"):
			i := strings.Index(rest[2:], "*/")
			if i < 0 {
				r.fail(r.pos, "close it with */", "a comment is not closed")
			}
			r.pos += i + 4
		default:
			return
		}
	}
}

// context describes the text at the reader's position.
func (r *reader) context() string {
	if r.pos >= len(r.text) {
		return "the end of the file"
	}
	if r.isAt('"') {
		return "a double quote"
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.pos:])
	return fmt.Sprintf("%q", string(c))
}

func (r *reader) isAt(c byte) bool { return r.pos < len(r.text) && r.text[r.pos] == c }

func (r *reader) read() node {
	r.skip()
	if r.depth++; r.depth > maxDepth {
		r.fail(r.pos, "make it flat", "values are nested more than %d deep", maxDepth)
	}
	defer func() { r.depth-- }()
	start := r.pos
	switch {
	case r.isAt('{'):
		return node{r.object(), start}
	case r.isAt('['):
		return node{r.array(), start}
	case r.isAt('"'):
		return node{r.str(), start}
	}
	word := r.word()
	switch {
	case word == "true" || word == "false":
		return node{word == "true", start}
	case word == "null":
		return node{nil, start}
	case json.Valid([]byte(word)): // the word can only be a number
		return node{json.Number(word), start}
	case r.isAt('\''):
		r.fail(start, "put text in double quotes: \"…\"", "text in single quotes")
	case word == "":
		r.fail(start, "write a value: text in double quotes, a number, true, false, [ ] or { }", "%s where a value belongs", r.context())
	}
	r.fail(start, fmt.Sprintf("put text in double quotes: %q", word), "%s is not a value", word)
	return node{}
}

// word reads up to the next space or punctuation.
func (r *reader) word() string {
	start := r.pos
	for r.pos < len(r.text) && r.pos-start < 64 && !strings.ContainsRune(" \t\r\n,:[]{}\"'/", rune(r.text[r.pos])) {
		r.pos++
	}
	return strings.ToValidUTF8(r.text[start:r.pos], "")
}

// next skips the comma between two values, and reports whether another value follows
// before end. It also skips end.
func (r *reader) next(open int, end byte, first bool) bool {
	r.skip()
	comma := false
	if r.isAt(',') && !first {
		comma = true
		r.pos++
		r.skip()
	}
	switch {
	case r.isAt(end):
		r.pos++
		return false
	case r.pos >= len(r.text):
		r.fail(open, fmt.Sprintf("close it with %c", end), "%c is not closed", r.text[open])
	case r.isAt(','):
		r.fail(r.pos, "write one comma between two values", "extra comma")
	case !first && !comma:
		r.fail(r.pos, fmt.Sprintf("put a comma before %s", r.context()), "a comma is missing")
	}
	return true
}

func (r *reader) object() []member {
	open := r.pos
	r.pos++
	members := []member{}
	for first := true; r.next(open, '}', first); first = false {
		m := member{offset: r.pos}
		if !r.isAt('"') {
			word := r.word()
			if word == "" {
				r.fail(m.offset, "write a key in double quotes, as in \"install\": \"npm ci\"", "%s where a key belongs", r.context())
			}
			r.fail(m.offset, fmt.Sprintf("put the key in double quotes: %q", word), "the key %s has no quotes", word)
		}
		m.key = r.str()
		r.skip()
		if !r.isAt(':') {
			r.fail(r.pos, fmt.Sprintf("write %q: and then the value", m.key), "%s where a colon belongs", r.context())
		}
		r.pos++
		m.value = r.read()
		members = append(members, m)
	}
	return members
}

func (r *reader) array() []node {
	open := r.pos
	r.pos++
	items := []node{}
	for first := true; r.next(open, ']', first); first = false {
		items = append(items, r.read())
	}
	return items
}

// str parses a string in double quotes.
func (r *reader) str() string {
	start := r.pos
	for r.pos++; r.pos < len(r.text); r.pos++ {
		switch c := r.text[r.pos]; {
		case c == '\\':
			r.pos++
		case c == '\n':
			r.fail(start, "close it with a double quote; write a line break as \\n", "text is not closed on its line")
		case c < ' ' && c != '\t':
			r.fail(r.pos, fmt.Sprintf("write it as \\u%04x, or leave it out", c), "a control character in text")
		case c == '"':
			r.pos++
			return r.unquote(start)
		}
	}
	r.fail(start, "close it with a double quote", "text is not closed")
	return ""
}

// unquote decodes the string that ends at the reader's position. It accepts
// literal tabs, although JSON does not.
func (r *reader) unquote(start int) string {
	raw := strings.ReplaceAll(r.text[start:r.pos], "\t", `\t`)
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		r.fail(start, `write a backslash as \\; JSON knows \" \\ \/ \b \f \n \r \t and \u0000`, "text with an escape that JSON does not know")
	}
	return s
}
