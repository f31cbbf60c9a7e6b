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

// A Mark is a placeholder for JSON values that are already encoded, in the body
// that an SDK encodes. An array that contains the mark gets the values as
// elements instead. It is a JSON string with random content, so no text of a
// conversation can be confused with it.
type Mark string

// Marks for the parts of a request.
var (
	MessagesMark = newMark()
	ToolsMark    = newMark()
)

func newMark() Mark { return Mark(`"` + rand.Text() + `"`) }

// JSON returns the mark as it appears in the body.
func (m Mark) JSON() json.RawMessage { return json.RawMessage(m) }

// Splice maps marks to the values that a [Wire] inserts into the body of a
// request.
type Splice map[Mark][][]byte

type spliceKey struct{}

// WithSplice returns a context that makes a [Wire] replace the marks in a
// request's body. Each mark must occur once. A value may be several elements
// separated by commas, or nil for none.
func WithSplice(ctx context.Context, s Splice) context.Context {
	return context.WithValue(ctx, spliceKey{}, s)
}

// spliced returns the request with the marks in its body replaced.
func spliced(req *http.Request) (*http.Request, error) {
	s, _ := req.Context().Value(spliceKey{}).(Splice)
	if len(s) == 0 || req.Body == nil {
		return req, nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close() // the body was read completely
	pieces, err := replace(body, s)
	if err != nil {
		return nil, err
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

// replace returns the body with the marks replaced by their values, which are
// separated by commas. It looks for marks only in the body, not in the values,
// which can be thousands of messages.
func replace(body []byte, s Splice) (out [][]byte, err error) {
	type place struct {
		offset int
		mark   Mark
	}
	var places []place
	for mark, values := range s {
		if n := bytes.Count(body, []byte(mark)); n != 1 {
			return nil, fmt.Errorf("a mark occurs %d times in the body of a request", n)
		}
		places = append(places, place{bytes.Index(body, []byte(mark)), mark})
		out = slices.Grow(out, 2*len(values)+1)
	}
	slices.SortFunc(places, func(a, b place) int { return a.offset - b.offset })
	done := 0
	for _, p := range places {
		out = append(out, body[done:p.offset])
		first := true
		for _, v := range s[p.mark] {
			if len(v) == 0 {
				continue
			}
			if !first {
				out = append(out, comma)
			}
			out, first = append(out, v), false
		}
		done = p.offset + len(p.mark)
	}
	return append(out, body[done:]), nil
}

// pieceReader reads pieces one after another. It does not modify them.
type pieceReader struct {
	left   [][]byte
	offset int // offset in the first element of left
}

// Read implements [io.Reader].
func (r *pieceReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.left) > 0 {
		copied := copy(p[n:], r.left[0][r.offset:])
		n, r.offset = n+copied, r.offset+copied
		if r.offset == len(r.left[0]) {
			r.left, r.offset = r.left[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
