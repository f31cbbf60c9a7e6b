package cli

import (
	"strings"
	"unicode/utf8"
)

// Cleaner removes terminal control from text: escape sequences, control characters
// except line ends and tabs, and Unicode marks that change the reading order. An escape
// sequence may be split between two pieces of text. The zero value is ready to use.
type Cleaner struct {
	in     sequence
	length int // length of the current sequence so far, in runes
	afterR bool
}

// sequence is the kind of the current escape sequence.
type sequence int

const (
	plain   sequence = iota
	escape           // after ESC
	control          // CSI: until a letter
	command          // OSC, DCS and similar: until BEL or ST
	ending           // in a command, after ESC
)

// longSequence is the length in runes after which an unterminated sequence is treated
// as text, so that it cannot hide everything that follows.
const longSequence = 4096

const (
	bel = 0x07
	esc = 0x1b
	del = 0x7f
)

// Clean returns s without terminal control.
func Clean(s string) string {
	var c Cleaner
	return c.Clean(s)
}

// Line returns s without terminal control on one line, cut to at most width
// runes. Width 0 means no limit.
func Line(s string, width int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if width > 0 && utf8.RuneCountInString(s) > width {
		s = strings.TrimRight(string([]rune(s)[:width-1]), " ") + "…"
	}
	return s
}

// Clean returns the next piece of text without terminal control.
func (c *Cleaner) Clean(s string) string {
	var out strings.Builder
	for _, r := range s { // invalid UTF-8 becomes U+FFFD
		if c.swallow(r) {
			continue
		}
		switch {
		case r == '\n' && c.afterR:
			c.afterR = false
			continue
		case r == '\r':
			out.WriteByte('\n')
		case r == '\n' || r == '\t' || !isControl(r):
			out.WriteRune(r)
		}
		c.afterR = r == '\r'
	}
	return out.String()
}

// swallow reports whether r belongs to an escape sequence.
func (c *Cleaner) swallow(r rune) bool {
	if c.in != plain {
		if c.length++; c.length > longSequence || r == '\n' || r == '\r' {
			c.in = plain
		}
	}
	switch c.in {
	case plain:
		return c.begin(r)
	case escape:
		c.in = plain
		switch {
		case r == '[':
			c.in = control
		case strings.ContainsRune("]PX^_", r):
			c.in = command
		case r == esc:
			c.in = escape
		case r >= 0x20 && r <= 0x2f: // an intermediate byte: more bytes follow
			c.in = escape
		}
	case control:
		switch {
		case r == esc:
			c.in = escape
		case r < 0x20 || r > 0x3f: // a final byte ends the sequence, as does an invalid byte
			c.in = plain
		}
	case command:
		switch r {
		case bel, 0x9c:
			c.in = plain
		case esc:
			c.in = ending
		}
	case ending:
		c.in = command
		if r == '\\' {
			c.in = plain
		}
	}
	return true
}

// begin reports whether r begins an escape sequence.
func (c *Cleaner) begin(r rune) bool {
	c.length = 0
	switch r {
	case esc:
		c.in = escape
	case 0x9b:
		c.in = control
	case 0x90, 0x98, 0x9d, 0x9e, 0x9f:
		c.in = command
	default:
		return false
	}
	return true
}

// isControl reports whether r is a control character or changes how text is displayed.
func isControl(r rune) bool {
	return r < 0x20 || r >= del && r < 0xa0 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || // reading order
		r == 0x200e || r == 0x200f || r == 0x2028 || r == 0x2029 || r == 0xfeff
}
