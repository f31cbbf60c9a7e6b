package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds one line of a stream.
const maxLine = 32 << 20

// errLongLine is a line that is longer than any server of ours sends.
var errLongLine = fmt.Errorf("the stream has a line of more than %d MiB", maxLine>>20)

// frame is one server-sent event.
type frame struct {
	id    string
	hasID bool // an id was given, though it may be empty
	event string
	data  []byte
}

// frames reads server-sent events, as the HTML standard says, from any server:
// lines end in \n, \r\n or \r; comments and unknown fields are left out.
type frames struct {
	r       *lines
	started bool
}

func newFrames(r io.Reader) *frames { return &frames{r: newLines(r)} }

// next returns the next event that has data. At the end of the stream it returns
// io.EOF: an event that was cut off does not count.
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
			out.event = "" // an event without data is none; its id stays
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
	afterR bool // a \n that comes now belongs to the line before
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns a line without its end, until the next call. What the end of the
// stream cut off is io.ErrUnexpectedEOF.
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
				_, _ = l.r.Discard(1) // it is buffered
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
