package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine is the largest line of a stream, in bytes.
const maxLine = 32 << 20

// errLongLine means that a line exceeds maxLine, which no Aloft server sends.
var errLongLine = fmt.Errorf("the stream has a line of more than %d MiB", maxLine>>20)

// frame is one server-sent event.
type frame struct {
	id    string
	hasID bool // whether the frame has an id, possibly empty
	event string
	data  []byte
}

// frames reads server-sent events as the HTML standard defines them: lines end in \n,
// \r\n or \r; comments and unknown fields are ignored.
type frames struct {
	r       *lines
	started bool
}

func newFrames(r io.Reader) *frames { return &frames{r: newLines(r)} }

// next returns the next event with data. At the end of the stream it returns io.EOF and
// drops an incomplete event.
func (f *frames) next() (frame, error) {
	var out frame
	var hasData bool
	for {
		line, err := f.r.next()
		if err != nil {
			return frame{}, err
		}
		if !f.started {
			f.started = true
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			if hasData {
				return out, nil
			}
			out.event = "" // ignore an event without data, but keep its id
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			if !bytes.ContainsRune(value, 0) {
				out.id, out.hasID = string(value), true
			}
		case "event":
			out.event = string(value)
		case "data":
			if hasData {
				out.data = append(out.data, '\n')
			}
			hasData = true
			if len(out.data)+len(value) > maxLine {
				return frame{}, errLongLine
			}
			out.data = append(out.data, value...)
		}
	}
}

// lines reads lines of bounded length that end in \n, \r\n or \r.
type lines struct {
	r      *bufio.Reader
	buf    []byte
	afterR bool // whether a following \n belongs to the previous line
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns a line without its terminator, valid until the next call. For an
// incomplete last line it returns io.ErrUnexpectedEOF.
func (l *lines) next() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		chunk, err := l.r.Peek(1)
		if err == nil {
			chunk, err = l.r.Peek(l.r.Buffered())
		}
		if err != nil {
			if errors.Is(err, io.EOF) && len(l.buf) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if l.afterR {
			l.afterR = false
			if chunk[0] == '\n' {
				_, _ = l.r.Discard(1) // the byte is buffered
				continue
			}
		}
		end := bytes.IndexAny(chunk, "\r\n")
		take := chunk
		if end >= 0 {
			take = chunk[:end]
		}
		if len(l.buf)+len(take) > maxLine {
			return nil, errLongLine
		}
		l.buf = append(l.buf, take...)
		if end < 0 {
			_, _ = l.r.Discard(len(chunk))
			continue
		}
		l.afterR = chunk[end] == '\r'
		_, _ = l.r.Discard(end + 1)
		return l.buf, nil
	}
}

// validID reports whether an id can go into a header.
func validID(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f })
}
