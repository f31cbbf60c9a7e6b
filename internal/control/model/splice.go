package model

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// A Mark stands in the body that an SDK encodes for JSON values that are encoded
// already: an array that has the mark as its element gets the values as its elements.
// It is a JSON string that nobody outside of this process can know, so that nothing
// in a conversation is taken for it.
type Mark string

// Marks of what a request holds.
var (
	MessagesMark = newMark()
	ToolsMark    = newMark()
)

func newMark() Mark { return Mark(`"` + rand.Text() + `"`) }

// JSON is the mark as it stands in the body.
func (m Mark) JSON() json.RawMessage { return json.RawMessage(m) }

// Splice says what a [Wire] puts into the body of a request, by mark.
type Splice map[Mark][][]byte

type spliceKey struct{}

// WithSplice returns a context for requests by a [Wire] in whose body the marks are
// replaced. Each mark must be there once. A value may be several with commas between
// them, or none, as nil.
func WithSplice(ctx context.Context, s Splice) context.Context {
	return context.WithValue(ctx, spliceKey{}, s)
}

// spliced returns the request with the body that its context says.
func spliced(req *http.Request) (*http.Request, error) {
	s, _ := req.Context().Value(spliceKey{}).(Splice)
	if len(s) == 0 || req.Body == nil {
		return req, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close() // all of it was read
	pieces := [][]byte{body}
	for mark, values := range s {
		values = slices.DeleteFunc(slices.Clone(values), func(v []byte) bool { return len(v) == 0 })
		if pieces, err = replace(pieces, []byte(mark), values); err != nil {
			return nil, err
		}
	}
	size := int64(0)
	for _, p := range pieces {
		size += int64(len(p))
	}
	req = req.Clone(req.Context())
	req.ContentLength = size
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(&pieceReader{left: pieces}), nil }
	req.Body, err = req.GetBody()
	return req, err
}

var comma = []byte{','}

// replace puts values, with commas between them, into the place of the mark.
func replace(pieces [][]byte, mark []byte, values [][]byte) (out [][]byte, err error) {
	found := 0
	for _, p := range pieces {
		before, after, ok := bytes.Cut(p, mark)
		if !ok {
			out = append(out, p)
			continue
		}
		found++
		out = append(out, before)
		for i, v := range values {
			if i > 0 {
				out = append(out, comma)
			}
			out = append(out, v)
		}
		out = append(out, after)
	}
	if found != 1 {
		return nil, fmt.Errorf("the body of a request has a mark %d times", found)
	}
	return out, nil
}

// pieceReader reads pieces one after another. It does not change them.
type pieceReader struct {
	left [][]byte
	at   int // in the first of left
}

// Read implements [io.Reader].
func (r *pieceReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.left) > 0 {
		copied := copy(p[n:], r.left[0][r.at:])
		n, r.at = n+copied, r.at+copied
		if r.at == len(r.left[0]) {
			r.left, r.at = r.left[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
