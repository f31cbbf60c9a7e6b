package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"aloft/internal/policy"
)

// The connection log of a machine is two files of JSON lines. Lines go to one
// file until it is full; then the other file is truncated and receives the
// lines. This bounds the log and works for a process that may not open files.
// The log outlives its writer, and the next writer continues it.
const (
	logFiles   = 2
	logSize    = 1 << 20 // size in bytes at which a file is full
	maxLogFile = 8 << 20 // how many bytes of a file are read; a new file starts with the open connections, so it can exceed logSize
	cutOff     = "cut: the egress process was restarted"
)

// A logLine is the start of a connection or, if it has a Seq, its end.
type logLine struct {
	N uint64 `json:"n"` // id of the connection; 0 if it ended as it started
	policy.Connection
}

// Log is an open log, used by one gateway.
type Log struct {
	files   [logFiles]*os.File
	now     int // index of the file being written
	size    int64
	initial history // content of the files on opening; the ledger takes it
}

func logFile(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("connections.%d", i)) }

// OpenLog opens or creates the log in dir. The caller must close it.
func OpenLog(dir string) (*Log, error) {
	l := &Log{}
	var contents [logFiles][]byte
	for i := range l.files {
		f, err := os.OpenFile(logFile(dir, i), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("log of connections: %w", err), l.Close())
		}
		l.files[i] = f
		if contents[i], err = io.ReadAll(io.LimitReader(f, maxLogFile)); err != nil {
			return nil, errors.Join(fmt.Errorf("log of connections: %w", err), l.Close())
		}
	}
	var newest int
	l.initial, newest = recall(contents)
	l.now, l.size = newest, int64(len(contents[newest]))
	if l.size > 0 && contents[newest][l.size-1] != '\n' {
		l.write(nil) // ends a line that was incomplete after a crash of the host
	}
	return l, nil
}

// ReadLog returns the connections in the log of dir, ordered by Seq. Call it
// only after the gateway has exited, because it reports connections without an
// end as cut. If dir contains no log, it returns no connections.
func ReadLog(dir string) ([]policy.Connection, error) {
	var contents [logFiles][]byte
	for i := range contents {
		f, err := os.Open(logFile(dir, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("log of connections: %w", err)
		}
		contents[i], err = io.ReadAll(io.LimitReader(f, maxLogFile))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("log of connections: %w", err)
		}
	}
	h, _ := recall(contents)
	return h.all(), nil
}

// A history is the content of a log.
type history struct {
	closed []policy.Connection // ordered by Seq
	open   []logLine           // started but not ended, oldest first
	named  uint64              // the highest connection id
}

// cut ends the connections that were never closed, with a reason.
func (h history) cut() []logLine {
	last := uint64(0)
	if n := len(h.closed); n > 0 {
		last = h.closed[n-1].Seq
	}
	out := slices.Clone(h.open)
	for i := range out {
		last++
		out[i].Seq, out[i].Error = last, cutOff
	}
	return out
}

// all returns all connections, including those that were cut.
func (h history) all() []policy.Connection {
	out := h.closed
	for _, line := range h.cut() {
		out = append(out, line.Connection)
	}
	return out
}

// recall parses the files of a log and returns which one was written last. It
// skips malformed lines, which a crash can leave.
func recall(contents [logFiles][]byte) (h history, newest int) {
	begun := map[uint64]logLine{}
	ended := map[uint64]policy.Connection{}
	removed := map[uint64]bool{}
	var greatest [logFiles]uint64
	for i, data := range contents {
		for line := range bytes.Lines(data) {
			var l logLine
			if json.Unmarshal(line, &l) != nil {
				continue
			}
			h.named = max(h.named, l.N)
			if l.Seq == 0 {
				begun[l.N] = l
				continue
			}
			greatest[i] = max(greatest[i], l.Seq)
			ended[l.Seq] = l.Connection
			removed[l.N] = true
		}
	}
	for n, line := range begun {
		if !removed[n] {
			h.open = append(h.open, line)
		}
	}
	for _, c := range ended {
		h.closed = append(h.closed, c)
	}
	slices.SortFunc(h.closed, func(a, b policy.Connection) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	h.closed = h.closed[max(0, len(h.closed)-maxRecords):]
	slices.SortFunc(h.open, func(a, b logLine) int { return a.StartedAt.Compare(b.StartedAt) })
	for i := range greatest {
		if greatest[i] > greatest[newest] || greatest[i] == greatest[newest] && len(contents[i]) > len(contents[newest]) {
			newest = i
		}
	}
	return h, newest
}

// add writes a line. If the file is full, it first switches to the other file
// and writes the lines of open. On a full disk the line is lost and the machine
// continues.
func (l *Log) add(line logLine, open func() []logLine) {
	if l == nil {
		return
	}
	l.write(&line)
	if l.size < logSize {
		return
	}
	next := (l.now + 1) % logFiles
	if l.files[next].Truncate(0) != nil {
		return
	}
	l.now, l.size = next, 0
	for _, line := range open() {
		l.write(&line)
	}
	l.size = 0 // do not count these lines, because many open connections would fill the file at once
}

// write writes a line; nil only ends an incomplete line.
func (l *Log) write(line *logLine) {
	var data []byte
	if line != nil {
		data, _ = json.Marshal(line) // strings and numbers always encode
	}
	n, _ := l.files[l.now].Write(append(data, '\n'))
	l.size += int64(n)
}

// Close closes the files. It may be called on a nil Log.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	var errs []error
	for _, f := range l.files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
