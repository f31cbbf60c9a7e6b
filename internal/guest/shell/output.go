package shell

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// output keeps what a command writes: in memory the head and the tail of each
// stream, and in a file the whole, once it is longer than the threshold.
type output struct {
	path      string
	threshold int
	limit     int64 // bytes that the file may hold

	mu     sync.Mutex
	refs   int
	head   [2][]byte
	tail   [2][]byte // the last bytes after head, and up to as many before them again
	size   [2]int64
	early  []byte // both streams as they came, while there is no file
	file   *os.File
	stored int64 // bytes in file
	full   bool  // bytes were thrown away
}

func newOutput(dir, mark string, threshold int, limit int64) *output {
	return &output{path: outputPath(dir, mark), threshold: threshold, limit: limit, refs: 1}
}

func (o *output) write(which int, p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size[which] += int64(len(p))
	switch {
	case o.file != nil:
		o.store(p)
	case len(o.early)+len(p) > o.threshold:
		o.spill()
		o.store(p)
	default:
		o.early = append(o.early, p...)
	}
	room := min(len(p), o.threshold-len(o.head[which]))
	o.head[which] = append(o.head[which], p[:room]...)
	if p = p[room:]; len(p) == 0 {
		return
	}
	o.tail[which] = append(o.tail[which], p[max(0, len(p)-o.threshold):]...)
	if t := o.tail[which]; len(t) > 2*o.threshold {
		o.tail[which] = append(t[:0], t[len(t)-o.threshold:]...)
	}
}

// spill makes the file with what came so far.
func (o *output) spill() {
	if o.file != nil || o.full {
		return
	}
	f, err := os.OpenFile(o.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		o.full = true
		return
	}
	o.file = f
	o.store(o.early)
	o.early = nil
}

// store appends to the file as much as it may hold.
func (o *output) store(p []byte) {
	if o.file == nil || o.full {
		return
	}
	if room := o.limit - o.stored; int64(len(p)) > room {
		p, o.full = p[:room], true
	}
	n, err := o.file.Write(p)
	o.stored += int64(n)
	if err != nil {
		o.full = true
	}
}

// hold keeps the file open, and makes it if there is none, for somebody who
// writes on after the command's end.
func (o *output) hold() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spill()
	o.refs++
}

func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refs--; o.refs == 0 && o.file != nil {
		_ = o.file.Close() // a failed write was told already
	}
}

// result fills in the parts of a result that tell of output.
func (o *output) result(res *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	res.OutputBytes, res.OutputFull = o.size[0]+o.size[1], o.full
	if o.file != nil {
		res.OutputFile = o.path
	}
	// Standard error may have a third, and what standard output leaves.
	room := int64(o.threshold)
	forErr := min(o.size[1], max(room/3, room-o.size[0]))
	res.Stdout = o.cut(0, int(min(o.size[0], room-forErr)))
	res.Stderr = o.cut(1, int(forErr))
}

// cut returns a stream's text in about room bytes.
func (o *output) cut(which, room int) string {
	head, tail := o.head[which], o.tail[which]
	if o.size[which] <= int64(room) {
		return valid(head) // all of it: room is at most the threshold
	}
	keepHead, keepTail := room/2, room-room/2
	last := tail
	if len(last) < keepTail {
		last = append(bytes.Clone(head), tail...) // size is above room, so nothing is said twice
	}
	first, last := wholeRunes(head[:min(keepHead, len(head))]), last[len(last)-keepTail:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	left := o.size[which] - int64(len(first)) - int64(len(last))
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", valid(first), left, valid(last))
}

// wholeRunes is p without a rune at its end that is not all there.
func wholeRunes(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(p)); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// valid is p as a string in which no byte is wrong.
func valid(p []byte) string { return strings.ToValidUTF8(string(p), "\uFFFD") }
