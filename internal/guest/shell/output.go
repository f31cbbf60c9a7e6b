package shell

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"
)

// output stores the output of a command: the beginning and the end of each
// stream in memory and, above the threshold, all of it in a file.
type output struct {
	path      string
	threshold int
	limit     int64 // maximum size of the file

	mu     sync.Mutex
	refs   int
	head   [2][]byte
	tail   [2][]byte // the last bytes after head, and before them up to the same number of older bytes
	size   [2]int64
	early  []byte // both streams in order of arrival, until there is a file
	file   *os.File
	stored int64 // bytes in the file
	full   bool  // bytes were discarded
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

// spill creates the file with the output so far.
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

// store appends to the file, up to its limit.
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

// keepOpen keeps the file open for a process that continues to write after the
// command's end. It creates the file if there is none.
func (o *output) keepOpen() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spill()
	o.refs++
}

func (o *output) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refs--; o.refs == 0 && o.file != nil {
		_ = o.file.Close() // a failed write has been reported already
	}
}

// result fills in a result's fields about output.
func (o *output) result(res *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	res.OutputBytes, res.OutputFull = o.size[0]+o.size[1], o.full
	if o.file != nil {
		res.OutputFile = o.path
	}
	// Standard error may use a third of the space, plus the space that standard
	// output does not use.
	room := int64(o.threshold)
	forErr := min(o.size[1], max(room/3, room-o.size[0]))
	res.Stdout = o.cut(0, int(min(o.size[0], room-forErr)))
	res.Stderr = o.cut(1, int(forErr))
}

// cut returns a stream's text in about room bytes.
func (o *output) cut(which, room int) string {
	head, tail := o.head[which], o.tail[which]
	if o.size[which] <= int64(room) {
		return valid(head) // the head is everything: room is at most the threshold
	}
	keepHead, keepTail := room/2, room-room/2
	last := tail
	if len(last) < keepTail {
		last = append(bytes.Clone(head), tail...) // size exceeds room, so head and tail do not overlap
	}
	first, last := wholeRunes(head[:min(keepHead, len(head))]), last[len(last)-keepTail:]
	for len(last) > 0 && !utf8.RuneStart(last[0]) {
		last = last[1:]
	}
	left := o.size[which] - int64(len(first)) - int64(len(last))
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", valid(first), left, valid(last))
}

// wholeRunes returns p without an incomplete character at its end.
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

// valid returns p as a string with invalid UTF-8 replaced.
func valid(p []byte) string { return strings.ToValidUTF8(string(p), "\uFFFD") }
