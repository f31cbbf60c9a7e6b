package model

import (
	"context"
	"fmt"
	"io"

	wiretext "aloft/internal/text"
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
// decoder sees them.
type meteredBody struct {
	io.ReadCloser
	whole bool // one value instead of events: no limit of bytes
	meter wiretext.Meter
}

// Read implements [io.Reader]. It returns no byte of a read that exceeds a
// limit.
func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
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
