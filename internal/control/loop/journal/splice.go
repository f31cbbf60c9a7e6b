package journal

import "strings"

// Splice shows a retried reply: while the new reply repeats what clients have
// already seen, Splice suppresses it.
type Splice struct {
	Seen    string // text that was shown before, and that the new reply has not repeated yet
	matched strings.Builder
}

// Next returns the part of the piece that must be shown.
func (s *Splice) Next(piece string) string {
	if s.Seen == "" {
		return piece
	}
	n := 0
	for n < len(piece) && n < len(s.Seen) && piece[n] == s.Seen[n] {
		n++
	}
	s.matched.WriteString(piece[:n])
	s.Seen = s.Seen[n:]
	switch {
	case n == len(piece):
		return ""
	case s.Seen == "":
		return piece[n:]
	}
	// The new reply differs: show all of it, after a separator.
	s.Seen = ""
	return "\n\n" + strings.ToValidUTF8(s.matched.String(), "") + piece[n:]
}
