package notebook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

// style is how a notebook's JSON is formatted.
type style struct {
	unit  string // indentation per level; empty if everything is on one line
	flat  bool   // everything is on one line
	end   string // line ending
	colon string
	ascii bool // non-ASCII characters are escaped
}

// styleOf detects the style from the notebook's top-level members.
func styleOf(text []byte, top []member) style {
	s := style{unit: " ", end: "\n", colon: ": ", ascii: isASCII(text) && bytes.Contains(text, []byte(`\u`))}
	if len(top) == 0 {
		return s
	}
	before := text[:top[0].key]
	if at := bytes.LastIndexByte(before, '\n'); at >= 0 {
		s.unit = string(before[at+1:])
		if at > 0 && before[at-1] == '\r' {
			s.end = "\r\n"
		}
	} else {
		s.flat = true
	}
	if !bytes.Contains(text[top[0].key:top[0].value.from], []byte(" ")) {
		s.colon = ":"
	}
	return s
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= 0x80 {
			return false
		}
	}
	return true
}

// line returns the start of a new line at a nesting depth.
func (s style) line(depth int) string {
	if s.flat {
		return ""
	}
	return s.end + strings.Repeat(s.unit, depth)
}

// comma returns the separator of two values at a nesting depth.
func (s style) comma(depth int) string {
	if !s.flat {
		return "," + s.line(depth)
	}
	if s.colon == ": " {
		return ", "
	}
	return ","
}

// object formats an object whose members are at a nesting depth.
func (s style) object(members [][2]string, depth int) string {
	var parts []string
	for _, m := range members {
		parts = append(parts, s.quote(m[0])+s.colon+m[1])
	}
	return "{" + s.line(depth) + strings.Join(parts, s.comma(depth)) + s.line(depth-1) + "}"
}

// lines formats a text as a list of its lines, which are at a nesting depth.
func (s style) lines(text string, depth int) string {
	if text == "" {
		return "[]"
	}
	var parts []string
	for line := range strings.Lines(text) {
		parts = append(parts, s.quote(line))
	}
	return "[" + s.line(depth) + strings.Join(parts, s.comma(depth)) + s.line(depth-1) + "]"
}

// quote formats a string as JSON with as few escapes as possible.
func (s style) quote(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // cannot fail for a string
	out := strings.TrimSuffix(b.String(), "\n")
	// Go escapes U+2028 and U+2029, which JSON does not require.
	out = unescapeSeparators(out)
	if !s.ascii {
		return out
	}
	var a strings.Builder
	for _, r := range out {
		switch {
		case r < 0x80:
			a.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&a, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&a, `\u%04x`, r)
		}
	}
	return a.String()
}

// unescapeSeparators restores U+2028 and U+2029, except where an escaped
// backslash precedes the text "u2028" in the original string.
func unescapeSeparators(quoted string) string {
	if !strings.Contains(quoted, `\u202`) {
		return quoted
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			b.WriteByte(quoted[i])
			continue
		}
		switch {
		case strings.HasPrefix(quoted[i:], `\u2028`):
			b.WriteString("\u2028")
			i += 5
		case strings.HasPrefix(quoted[i:], `\u2029`):
			b.WriteString("\u2029")
			i += 5
		default:
			b.WriteString(quoted[i : i+2])
			i++
		}
	}
	return b.String()
}
