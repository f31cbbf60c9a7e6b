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

// Bounds of a log: its beginning is in the file at once, its end when it is
// closed, and of what is between the file says how much there was.
const (
	maxLogHead = 16 << 20
	maxLogTail = 1 << 20
	maxLogEnd  = 4 << 10 // of what a person is told at once
	logNews    = 2 * time.Second
)

// buildLog is the log of one build. It is for one goroutine. What the disk does
// not take is missing, and fails no build.
type buildLog struct {
	file  *os.File
	err   error // of writing
	head  int64
	tail  []byte
	lost  int64
	from  int64         // where end begins
	news  func(string)  // hears the last line of output; may be nil
	pause time.Duration // between lines that it hears
	spoke time.Time
}

func openLog(path string) (*buildLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return &buildLog{file: f}, err
}

// Write implements [io.Writer], and never fails.
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

// line writes a line of ours, in the order of what the machine prints.
func (l *buildLog) line(s string) { _, _ = l.Write([]byte(s + "\n")) }

// mark has end begin here.
func (l *buildLog) mark() { l.from = l.lost + int64(len(l.tail)) }

// end is the last that was written since mark.
func (l *buildLog) end() string {
	since := min(l.lost+int64(len(l.tail))-l.from, int64(len(l.tail)), maxLogEnd)
	return strings.TrimSpace(strings.ToValidUTF8(string(l.tail[int64(len(l.tail))-since:]), "\uFFFD"))
}

// close writes what the file does not have yet of the end.
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
