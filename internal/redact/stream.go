package redact

import (
	"bytes"
	"slices"
	"time"
)

// span is a part of the text that is to be taken out, counted from the
// beginning of the text.
type span struct{ start, end int64 }

// spans are disjoint and in order.
type spans []span

// add joins a match to the spans. Matches come in the order of their ends.
func (s *spans) add(m span) {
	all := *s
	for n := len(all); n > 0 && all[n-1].end > m.start; n-- {
		m.start = min(m.start, all[n-1].start)
		all = all[:n-1]
	}
	all = append(all, m)
	*s = all
}

// forget drops the spans that end by then.
func (s *spans) forget(by int64) {
	n := 0
	for n < len(*s) && (*s)[n].end <= by {
		n++
	}
	*s = slices.Delete(*s, 0, n)
}

// union returns the spans of both, those that overlap as one.
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

// plainScan finds what stands in the text as it is.
type plainScan struct {
	of    *automaton
	at    int32
	read  int64
	found spans
}

func (p *plainScan) next(b []byte) {
	p.at = p.of.scan(p.at, b, func(end, length int) bool {
		stop := p.read + int64(end)
		p.found.add(span{stop - int64(length), stop})
		return true
	})
	p.read += int64(len(b))
}

// open returns where the earliest match that is not whole yet begins.
func (p *plainScan) open() int64 { return p.read - int64(p.of.states[p.at].depth) }

// wrappedScan finds what stands in the text when its line breaks are left out.
type wrappedScan struct {
	of     *automaton
	at     int32
	read   int64   // without line breaks
	breaks []int64 // of each line break that counts: how much was read before it
	before int64   // line breaks that came before those
	text   []byte  // the last piece without its line breaks
	run    int     // line breaks left out since the last other byte
	found  spans
}

// maxBreak is how many bytes of a line break are left out: after "\r\n" the next
// line begins, and what is more is text, so that no more is held back for it.
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
	w.at = w.of.scan(w.at, w.text, func(end, length int) bool {
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

// leaveOut leaves out a byte of a line break, unless it is one too many.
func (w *wrappedScan) leaveOut(c byte) {
	if w.run++; w.run > maxBreak {
		w.text = append(w.text, c)
		return
	}
	w.breaks = append(w.breaks, w.read+int64(len(w.text)))
}

// position returns where in the text the byte stands of that number, which counts
// no line breaks.
func (w *wrappedScan) position(n int64) int64 {
	i, _ := slices.BinarySearch(w.breaks, n+1) // breaks at or before n
	return n + w.before + int64(i)
}

func (w *wrappedScan) open() int64 { return w.position(w.read - int64(w.of.states[w.at].depth)) }

// forget drops the line breaks that no later match can have in it.
func (w *wrappedScan) forget() {
	i, _ := slices.BinarySearch(w.breaks, w.read-int64(w.of.states[w.at].depth)+1)
	w.before += int64(i)
	w.breaks = slices.Delete(w.breaks, 0, i)
}

// Stream takes the secrets out of a text that comes in pieces. It is not safe
// for concurrent use.
type Stream struct {
	plain   plainScan
	wrapped wrappedScan
	empty   bool
	held    []byte // what was read and not given out
	done    int64  // how much of the text was given out or taken out
	early   int64  // how much Idle has given out of what may yet become a secret
	out     []byte
}

// Stream returns a stream for a new text.
func (r *Redactor) Stream() *Stream {
	if r.Empty() {
		return &Stream{empty: true}
	}
	return &Stream{plain: plainScan{of: r.plain}, wrapped: wrappedScan{of: r.wrapped}}
}

// Next takes the next piece and returns what is known to be no part of a
// secret, with the marker where one was. It holds back only what may yet become
// one. The result is good until the next call.
func (s *Stream) Next(piece []byte) []byte {
	if s.empty {
		return piece
	}
	s.plain.next(piece)
	s.wrapped.next(piece)
	s.held = append(s.held, piece...)
	return s.give(min(s.plain.open(), s.wrapped.open()))
}

// Quiet is how long nothing comes before somebody who watches should be given
// what [Stream.Idle] returns.
const Quiet = 100 * time.Millisecond

// Idle returns what of the text that is held back nobody should wait for, when
// nothing has come for a while: so much of it that it is too short to be a
// secret. What comes after is still known for the rest of one. The result is
// good until the next call.
func (s *Stream) Idle() []byte {
	if s.empty {
		return nil
	}
	upto := min(min(s.plain.open(), s.wrapped.open())+MinLength-1, s.plain.read)
	for _, m := range union(s.plain.found, s.wrapped.found) {
		if m.start < upto && m.end > upto { // a whole secret that may be the beginning of a longer one
			upto = m.start
		}
	}
	if upto <= s.done {
		return nil
	}
	out := s.give(upto)
	s.early = s.done
	return out
}

// Holds reports whether anything is held back.
func (s *Stream) Holds() bool { return len(s.held) > 0 }

// Flush returns what is held back, at the end of the text. The stream is then
// as new.
func (s *Stream) Flush() []byte {
	if s.empty {
		return nil
	}
	out := s.give(s.plain.read)
	*s = Stream{plain: plainScan{of: s.plain.of}, wrapped: wrappedScan{of: s.wrapped.of}}
	return out
}

// give gives out the text up to that place.
func (s *Stream) give(upto int64) []byte {
	s.out = s.out[:0]
	begin := s.done // of held
	for _, m := range union(s.plain.found, s.wrapped.found) {
		if m.start >= upto {
			break
		}
		switch {
		case m.start >= s.done:
			s.out = append(s.out, s.held[s.done-begin:m.start-begin]...)
			s.out = append(s.out, Marker...)
		case s.done == s.early && m.end > s.done: // its first characters are out; else its marker is
			s.out = append(s.out, Marker...)
		}
		s.done = max(s.done, min(m.end, upto))
	}
	if s.done < upto {
		s.out = append(s.out, s.held[s.done-begin:upto-begin]...)
		s.done = upto
	}
	s.held = append(s.held[:0], s.held[s.done-begin:]...)
	s.plain.found.forget(s.done)
	s.wrapped.found.forget(s.done)
	return s.out
}

// Finder looks for secrets in a text that comes in pieces. It is not safe for
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

// Found takes the next piece and reports whether a secret has ended in the text
// so far.
func (f *Finder) Found(piece []byte) bool {
	if f.empty || f.found {
		return f.found
	}
	f.plain.next(piece)
	f.wrapped.next(piece)
	f.found = len(f.plain.found) > 0 || len(f.wrapped.found) > 0
	return f.found
}
