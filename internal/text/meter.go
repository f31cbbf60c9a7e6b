package text

// A Meter counts the bytes and the JSON values of one event of a stream, or of one JSON
// document, before a decoder processes it: a decoded value may take 1,000 times the
// memory of its JSON. A blank line outside of JSON ends an event and resets the counts.
// A Meter assumes that no string contains a line end, which encoding/json checks before
// it decodes. The zero Meter is ready for use.
type Meter struct {
	size, values, depth  int
	quoted, escaped, end bool // end: the last byte except \r was a line end
}

// Count counts p. It returns false if an event has more than maxSize bytes or more than
// maxValues values. If maxSize is 0, the number of bytes is not limited.
func (m *Meter) Count(p []byte, maxSize, maxValues int) bool {
	for _, c := range p {
		m.count(c)
		if m.values > maxValues || maxSize > 0 && m.size > maxSize {
			return false
		}
	}
	return true
}

// Size returns the bytes of the current event, so far.
func (m *Meter) Size() int { return m.size }

func (m *Meter) count(c byte) {
	m.size++
	switch c {
	case '\r':
		return
	case '\n':
		if m.end && m.depth == 0 {
			m.size, m.values = 0, 0
		}
		m.quoted, m.escaped, m.end = false, false, true
		return
	}
	m.end = false
	switch {
	case m.escaped:
		m.escaped = false
	case m.quoted:
		m.quoted, m.escaped = c != '"', c == '\\'
	case c == '"':
		m.quoted = true
	case c == '{' || c == '[':
		m.depth++
		m.values++
	case c == '}' || c == ']':
		m.depth = max(m.depth-1, 0)
	case c == ',':
		m.values++
	}
}
