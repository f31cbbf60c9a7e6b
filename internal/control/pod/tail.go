package pod

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// The minimum interval between progress reports of a [Tail], and the maximum
// length of a report in bytes.
const (
	newsEvery = 2 * time.Second
	maxNews   = 512
)

// A Tail keeps the end of a command's output, and reports progress from time to
// time. It is not safe for concurrent use.
type Tail struct {
	Limit int               // how many bytes to keep
	News  func(line string) // called with the last complete line, at most every 2 seconds; may be nil

	kept  []byte
	lost  int64
	spoke time.Time
}

// Write implements [io.Writer]. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.Limit; over > t.Limit { // trim in large steps, not for every byte
		t.lost += int64(over)
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	if t.News != nil && time.Since(t.spoke) > newsEvery {
		t.spoke = time.Now()
		whole := t.kept[:bytes.LastIndexByte(t.kept, '\n')+1]
		whole = bytes.TrimRight(whole, "\r\n")
		last := bytes.TrimSpace(whole[bytes.LastIndexAny(whole, "\r\n")+1:])
		t.News(strings.ToValidUTF8(string(last[:min(len(last), maxNews)]), ""))
	}
	return len(p), nil
}

// Text returns the end of the output. If the beginning is missing, a first line
// says how much.
func (t *Tail) Text() string {
	kept, lost := t.kept, t.lost
	if over := len(kept) - t.Limit; over > 0 {
		kept, lost = kept[over:], lost+int64(over)
	}
	s := strings.ToValidUTF8(string(kept), "\uFFFD")
	if lost > 0 {
		s = fmt.Sprintf("… %d earlier bytes omitted\n%s", lost, s)
	}
	return s
}
