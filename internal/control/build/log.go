package build

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Limits of a log. The beginning of the output is written to the file at once,
// and its end when the log is closed. The middle is replaced by the number of
// bytes that were dropped.
const (
	maxLogHead = 16 << 20
	maxLogTail = 1 << 20
	maxLogEnd  = 4 << 10 // how much of the end an error message quotes
	logNews    = 2 * time.Second
)

// buildLog is the log of one build. It is not safe for concurrent use. Failed
// writes lose output but do not fail the build.
type buildLog struct {
	file  *os.File
	err   error // first write error
	head  int64
	tail  []byte
	lost  int64
	from  int64         // offset at which end starts
	news  func(string)  // receives the last line of output; may be nil
	pause time.Duration // minimum time between calls of news
	spoke time.Time
}

func openLog(path string) (*buildLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return &buildLog{file: f}, err
}

// Write implements [io.Writer]. It never fails.
func (l *buildLog) Write(p []byte) (int, error) {
	n := len(p)
	if room := maxLogHead - l.head; room > 0 && l.err == nil {
		part := p[:min(int64(len(p)), room)]
		_, l.err = l.file.Write(part)
		l.head += int64(len(part))
	}
	l.tail = append(l.tail, p...)
	if over := len(l.tail) - maxLogTail; over > maxLogTail {
		l.lost += int64(over)
		l.tail = append(l.tail[:0], l.tail[over:]...)
	}
	if l.news != nil && time.Since(l.spoke) > l.pause {
		l.spoke = time.Now()
		near := l.tail[max(0, len(l.tail)-maxLogEnd):] // lines may be of any length
		whole := bytes.TrimRight(near[:bytes.LastIndexByte(near, '\n')+1], "\r\n")
		l.news(strings.ToValidUTF8(string(whole[bytes.LastIndexAny(whole, "\r\n")+1:]), ""))
	}
	return n, nil
}

// line writes a line of the builder itself between the machine's output.
func (l *buildLog) line(s string) { _, _ = l.Write([]byte(s + "\n")) }

// mark records the current position of the output.
func (l *buildLog) mark() { l.from = l.lost + int64(len(l.tail)) }

// end returns the last output since mark.
func (l *buildLog) end() string {
	since := min(l.lost+int64(len(l.tail))-l.from, int64(len(l.tail)), maxLogEnd)
	return strings.TrimSpace(strings.ToValidUTF8(string(l.tail[int64(len(l.tail))-since:]), "\uFFFD"))
}

// close writes the buffered end of the log to the file.
func (l *buildLog) close() error {
	total := l.lost + int64(len(l.tail))
	err := l.err
	if rest := total - l.head; rest > 0 && err == nil {
		tail := l.tail[max(0, int64(len(l.tail))-min(rest, maxLogTail)):]
		if left := rest - int64(len(tail)); left > 0 {
			_, err = fmt.Fprintf(l.file, "\n# … %d bytes are left out here\n", left)
		}
		if err == nil {
			_, err = l.file.Write(tail)
		}
	}
	return errors.Join(err, l.file.Close())
}
