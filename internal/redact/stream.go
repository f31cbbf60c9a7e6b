package redact

import (
	"bytes"
	"slices"
	"time"
)

// span is a part of the text to be removed, in offsets from the start of the
// text.
type span struct{ start, end int64 }

// spans are disjoint and sorted.
type spans []span

// add merges a match into the spans. Matches come in the order of their ends.
func (s *spans) add(m span) {
	all := *s
	for n := len(all); n > 0 && all[n-1].end > m.start; n-- {
		m.start = min(m.start, all[n-1].start)
		all = all[:n-1]
	}
	all = append(all, m)
	*s = all
}

// forget drops the spans that end at or before an offset.
func (s *spans) forget(by int64) {
	n := 0
	for n < len(*s) && (*s)[n].end <= by {
		n++
	}
	*s = slices.Delete(*s, 0, n)
}

// union returns the union of a and b, with overlapping spans merged.
func union(a, b spans) spans {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	var out spans
	for len(a) > 0 || len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].start < a[0].start {
			a, b = b, a
		}
		next := a[0]
		a = a[1:]
		if n := len(out); n > 0 && out[n-1].end > next.start {
			out[n-1].end = max(out[n-1].end, next.end)
			continue
		}
		out = append(out, next)
	}
	return out
}

// plainScan searches the text itself.
type plainScan struct {
	of    *automaton
	state int32
	read  int64
	found spans
}

func (p *plainScan) next(b []byte) {
	p.state = p.of.scan(p.state, b, func(end, length int) bool {
		stop := p.read + int64(end)
		p.found.add(span{stop - int64(length), stop})
		return true
	})
	p.read += int64(len(b))
}

// open returns the start of the earliest incomplete match.
func (p *plainScan) open() int64 { return p.read - int64(p.of.states[p.state].depth) }

// wrappedScan searches the text without its line breaks.
type wrappedScan struct {
	of     *automaton
	state  int32
	read   int64   // bytes without line breaks
	breaks []int64 // for each relevant line break, the number of bytes read before it
	before int64   // number of earlier line breaks
	text   []byte  // the last piece without its line breaks
	run    int     // line breaks skipped since the last other byte
	found  spans
}

// maxBreak is how many bytes of a line break are skipped, enough for "\r\n". Further
// line breaks count as text, so that they do not delay more text.
const maxBreak = 2

func (w *wrappedScan) next(b []byte) {
	w.text = w.text[:0]
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		line := b
		if end >= 0 {
			line = b[:end]
		}
		for cr := bytes.IndexByte(line, '\r'); cr >= 0; cr = bytes.IndexByte(line, '\r') {
			w.add(line[:cr])
			w.leaveOut('\r')
			line = line[cr+1:]
		}
		w.add(line)
		if end < 0 {
			break
		}
		w.leaveOut('\n')
		b = b[end+1:]
	}
	w.state = w.of.scan(w.state, w.text, func(end, length int) bool {
		stop := w.read + int64(end)
		w.found.add(span{w.position(stop - int64(length)), w.position(stop-1) + 1})
		return true
	})
	w.read += int64(len(w.text))
	w.forget()
}

func (w *wrappedScan) add(text []byte) {
	if len(text) > 0 {
		w.text = append(w.text, text...)
		w.run = 0
	}
}

// leaveOut skips a byte of a line break, unless maxBreak is reached.
func (w *wrappedScan) leaveOut(c byte) {
	if w.run++; w.run > maxBreak {
		w.text = append(w.text, c)
		return
	}
	w.breaks = append(w.breaks, w.read+int64(len(w.text)))
}

// position returns the offset in the text of byte number n. The number does not count
// line breaks.
func (w *wrappedScan) position(n int64) int64 {
	i, _ := slices.BinarySearch(w.breaks, n+1) // breaks at or before n
	return n + w.before + int64(i)
}

func (w *wrappedScan) open() int64 { return w.position(w.read - int64(w.of.states[w.state].depth)) }

// forget drops the line breaks that no later match can include.
func (w *wrappedScan) forget() {
	i, _ := slices.BinarySearch(w.breaks, w.read-int64(w.of.states[w.state].depth)+1)
	w.before += int64(i)
	w.breaks = slices.Delete(w.breaks, 0, i)
}

// Stream redacts a text that arrives in pieces. It is not safe for concurrent use.
type Stream struct {
	plain   plainScan
	wrapped wrappedScan
	empty   bool
	pending []byte // read but not returned yet
	passed  int64  // offset up to which the text was returned or removed
	early   int64  // number of bytes that Idle has returned although they may be the start of a secret
	out     []byte
}

// Stream returns a stream for a new text.
func (r *Redactor) Stream() *Stream {
	if r.Empty() {
		return &Stream{empty: true}
	}
	return &Stream{plain: plainScan{of: r.plain}, wrapped: wrappedScan{of: r.wrapped}}
}

// Next processes the next piece and returns the text that is certainly not part of a
// secret, with secrets replaced by markers. It delays only text that may still become a
// secret. The result is valid until the next call.
func (s *Stream) Next(piece []byte) []byte {
	if s.empty {
		return piece
	}
	s.plain.next(piece)
	s.wrapped.next(piece)
	s.pending = append(s.pending, piece...)
	return s.give(min(s.plain.open(), s.wrapped.open()))
}

// Quiet is how long the text must pause before a caller that shows it to somebody should
// call [Stream.Idle].
const Quiet = 100 * time.Millisecond

// Idle returns the part of the delayed text that is too short to count as a secret. Call
// it when the text pauses. If later text completes a secret, the rest of the secret is
// still redacted. The result is valid until the next call.
func (s *Stream) Idle() []byte {
	if s.empty {
		return nil
	}
	upto := min(min(s.plain.open(), s.wrapped.open())+MinLength-1, s.plain.read)
	for _, m := range union(s.plain.found, s.wrapped.found) {
		if m.start < upto && m.end > upto { // this complete secret may be the start of a longer one
			upto = m.start
		}
	}
	if upto <= s.passed {
		return nil
	}
	out := s.give(upto)
	s.early = s.passed
	return out
}

// Holds reports whether any text is delayed.
func (s *Stream) Holds() bool { return len(s.pending) > 0 }

// Flush returns the delayed text at the end of the input. The stream can then be reused.
func (s *Stream) Flush() []byte {
	if s.empty {
		return nil
	}
	out := s.give(s.plain.read)
	*s = Stream{plain: plainScan{of: s.plain.of}, wrapped: wrappedScan{of: s.wrapped.of}}
	return out
}

// give returns the text up to an offset.
func (s *Stream) give(upto int64) []byte {
	s.out = s.out[:0]
	begin := s.passed // start of held
	for _, m := range union(s.plain.found, s.wrapped.found) {
		if m.start >= upto {
			break
		}
		switch {
		case m.start >= s.passed:
			s.out = append(s.out, s.pending[s.passed-begin:m.start-begin]...)
			s.out = append(s.out, Marker...)
		case s.passed == s.early && m.end > s.passed: // its first characters, or its marker, have been returned already
			s.out = append(s.out, Marker...)
		}
		s.passed = max(s.passed, min(m.end, upto))
	}
	if s.passed < upto {
		s.out = append(s.out, s.pending[s.passed-begin:upto-begin]...)
		s.passed = upto
	}
	s.pending = append(s.pending[:0], s.pending[s.passed-begin:]...)
	s.plain.found.forget(s.passed)
	s.wrapped.found.forget(s.passed)
	return s.out
}

// Finder searches for secrets in a text that arrives in pieces. It is not safe for
// concurrent use.
type Finder struct {
	plain   plainScan
	wrapped wrappedScan
	empty   bool
	found   bool
}

// Finder returns a finder for a new text.
func (r *Redactor) Finder() *Finder {
	if r.Empty() {
		return &Finder{empty: true}
	}
	return &Finder{plain: plainScan{of: r.plain}, wrapped: wrappedScan{of: r.wrapped}}
}

// Found processes the next piece and reports whether the text so far contains a
// complete secret.
func (f *Finder) Found(piece []byte) bool {
	if f.empty || f.found {
		return f.found
	}
	f.plain.next(piece)
	f.wrapped.next(piece)
	f.found = len(f.plain.found) > 0 || len(f.wrapped.found) > 0
	return f.found
}
