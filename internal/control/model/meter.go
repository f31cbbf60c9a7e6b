package model

import (
	"context"
	"fmt"
	"io"
<<<<<<< HEAD

	wiretext "aloft/internal/text"
=======
>>>>>>> c0fa5f15 (model: bound the values of an event and the counts of usage that a server reports)
)

// Limits of one event of a stream. A decoded value takes up to 1,000 times the
// memory of its JSON: in Anthropic's SDK, "{}" becomes a struct of 2 KiB.
const (
	maxEventBytes  = 8 << 20
	maxEventValues = 20_000 // a real event has less than 100, or some for each part of a whole reply
)

type wholeKey struct{}

// Whole returns a context for a request whose reply is one JSON value, such as
// an image. The reply may then have as many bytes as [Wire] accepts, but only
// as many values as one event.
func Whole(ctx context.Context) context.Context {
	return context.WithValue(ctx, wholeKey{}, true)
}

// A meteredBody limits the bytes and the JSON values of each event before a
<<<<<<< HEAD
// decoder sees them.
type meteredBody struct {
	io.ReadCloser
	whole bool // one value instead of events: no limit of bytes
	meter wiretext.Meter
=======
// decoder sees them. Events end with a blank line outside of JSON. It assumes
// what [encoding/json] checks before it decodes: strings contain no line ends.
type meteredBody struct {
	io.ReadCloser
	whole bool // one value instead of events: no limit of bytes

	size, values, depth  int
	quoted, escaped, end bool // end: the last byte except \r was a line end
>>>>>>> c0fa5f15 (model: bound the values of an event and the counts of usage that a server reports)
}

// Read implements [io.Reader]. It returns no byte of a read that exceeds a
// limit.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
<<<<<<< HEAD
	size := maxEventBytes
	if b.whole {
		size = 0
	}
	if !b.meter.Count(p[:n], size, maxEventValues) {
		return 0, &Error{Reason: BadReply, Message: fmt.Sprintf(
			"an event of the stream is longer than %d MiB or has more than %d values", maxEventBytes>>20, maxEventValues)}
	}
	return n, err
}
=======
	for _, c := range p[:n] {
		b.count(c)
		if b.values > maxEventValues {
			return 0, &Error{Reason: BadReply, Message: fmt.Sprintf("an event of the stream has more than %d values", maxEventValues)}
		}
		if b.size > maxEventBytes && !b.whole {
			return 0, &Error{Reason: BadReply, Message: fmt.Sprintf("an event of the stream is longer than %d MiB", maxEventBytes>>20)}
		}
	}
	return n, err
}

func (b *meteredBody) count(c byte) {
	b.size++
	switch {
	case c == '\r':
		return
	case c == '\n':
		if b.end && b.depth == 0 {
			b.size, b.values = 0, 0
		}
		b.quoted, b.escaped, b.end = false, false, true
		return
	}
	b.end = false
	switch {
	case b.escaped:
		b.escaped = false
	case b.quoted:
		b.quoted, b.escaped = c != '"', c == '\\'
	case c == '"':
		b.quoted = true
	case c == '{' || c == '[':
		b.depth++
		b.values++
	case c == '}' || c == ']':
		b.depth = max(b.depth-1, 0)
	case c == ',':
		b.values++
	}
}
>>>>>>> c0fa5f15 (model: bound the values of an event and the counts of usage that a server reports)
