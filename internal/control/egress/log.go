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

// The log of a machine's connections is two files of lines, of which one is
// written until it is full, and then the other one anew: so it is bounded, and
// a process that may open no file can go on with it. It outlives its writer, who
// goes on where the one before was killed.
const (
	logFiles   = 2
	logSize    = 1 << 20 // bytes at which a file is full
	maxLogFile = 8 << 20 // bytes that are read of one: what was open when it was begun stands in it too
	cutOff     = "cut: the gateway was started again"
)

// A line of the log is the beginning of a connection or, with a Seq, its end.
type logLine struct {
	N uint64 `json:"n"` // names the connection; 0 where it ended as it began
	policy.Connection
}

// Log is an open log. It is for one gateway.
type Log struct {
	files [logFiles]*os.File
	now   int // the one that is written
	size  int64
	said  history // until a ledger has taken it
}

func logFile(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("connections.%d", i)) }

// OpenLog opens the log in dir, or begins one. It must be closed.
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
	l.said, newest = recall(contents)
	l.now, l.size = newest, int64(len(contents[newest]))
	if l.size > 0 && contents[newest][l.size-1] != '\n' {
		l.write(nil) // ends a line that a crash of the host has torn
	}
	return l, nil
}

// ReadLog returns the connections that the log in dir holds, by their Seq. They
// have all ended, since it is of a machine whose gateway is gone. A folder
// without a log has none.
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

// A history is what a log says.
type history struct {
	ended []policy.Connection // by Seq
	open  []logLine           // begun and never ended, the oldest first
	named uint64              // the greatest name of a connection
}

// cut numbers the connections that never ended, and says why.
func (h history) cut() []logLine {
	last := uint64(0)
	if n := len(h.ended); n > 0 {
		last = h.ended[n-1].Seq
	}
	out := slices.Clone(h.open)
	for i := range out {
		last++
		out[i].Seq, out[i].Error = last, cutOff
	}
	return out
}

// all are the connections with those that were cut.
func (h history) all() []policy.Connection {
	out := h.ended
	for _, line := range h.cut() {
		out = append(out, line.Connection)
	}
	return out
}

// recall reads the files of a log, and says which was written last. A line that
// is none, which a crash may leave, is passed over.
func recall(contents [logFiles][]byte) (h history, newest int) {
	begun := map[uint64]logLine{}
	ended := map[uint64]policy.Connection{}
	gone := map[uint64]bool{}
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
			gone[l.N] = true
		}
	}
	for n, line := range begun {
		if !gone[n] {
			h.open = append(h.open, line)
		}
	}
	for _, c := range ended {
		h.ended = append(h.ended, c)
	}
	slices.SortFunc(h.ended, func(a, b policy.Connection) int {
		if a.Seq < b.Seq {
			return -1
		}
		return 1
	})
	h.ended = h.ended[max(0, len(h.ended)-maxRecords):]
	slices.SortFunc(h.open, func(a, b logLine) int { return a.StartedAt.Compare(b.StartedAt) })
	for i := range greatest {
		if greatest[i] > greatest[newest] || greatest[i] == greatest[newest] && len(contents[i]) > len(contents[newest]) {
			newest = i
		}
	}
	return h, newest
}

// add writes a line. When the file is full the other one is begun, with what
// open lists. Where the disk is full the log has a gap, and the machine goes on.
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
	l.size = 0 // they do not count, or many would fill it at once
}

// write writes a line, or the end of one.
func (l *Log) write(line *logLine) {
	var data []byte
	if line != nil {
		data, _ = json.Marshal(line) // of strings and numbers
	}
	n, _ := l.files[l.now].Write(append(data, '\n'))
	l.size += int64(n)
}

// Close closes the files. A nil log has none.
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
