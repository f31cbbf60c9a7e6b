package execd

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"aloft/internal/atomicfile"
	"aloft/internal/fault"
	"aloft/internal/lockfile"
	"aloft/internal/wire/agentv1"
)

// Names of the files and folders in the state folder.
const (
	logName    = "calls.log"
	resultsDir = "results"
	bootIDName = "boot_id"
)

// handedOnWithin is how long to wait for a killed exec-daemon's child to drop
// the inherited lock on the call log.
const handedOnWithin = 3 * time.Second

// maxCallID is the longest id of a call, in characters.
const maxCallID = 128

// Record types in the log. A record is a letter, a space, an id and a line
// break.
const (
	markStarted      = 'S'
	markAcknowledged = 'A'
)

// callLog persists which calls were started, their results, and which were
// acknowledged. It survives kill -9 of exec-daemon but need not survive the
// machine, so it never syncs. Started and acknowledged ids are appended to one
// file, some 40 bytes each, which is never compacted; each result has its own
// file. Its methods are safe for concurrent use.
type callLog struct {
	dir string

	mu   sync.Mutex
	file *os.File
	size int64 // length of the complete lines in file
	read []logLine
}

type logLine struct {
	mark byte
	id   string
}

// openCallLog opens the log in dir, and creates it if missing. Only one process
// can have it open.
func openCallLog(dir string) (*callLog, error) {
	if err := os.MkdirAll(filepath.Join(dir, resultsDir), 0o700); err != nil {
		return nil, fmt.Errorf("call log: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("call log: %w", err)
	}
	if err := lockfile.Exclusive(file, handedOnWithin); err != nil {
		_ = file.Close()
		return nil, fault.Conflict("another exec-daemon uses %s", dir).
			Hint("stop it, or give this one another --state-dir").Because(err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("call log: %w", err), file.Close())
	}
	lines, size := parseCallLog(text)
	// Drop an incomplete last line: its write was never acknowledged.
	if err := file.Truncate(int64(size)); err != nil {
		return nil, errors.Join(fmt.Errorf("call log: %w", err), file.Close())
	}
	return &callLog{dir: dir, file: file, size: int64(size), read: lines}, nil
}

// parseCallLog returns the valid lines of text, and the length of text up to
// the end of its last complete line.
func parseCallLog(text []byte) (lines []logLine, size int) {
	for line := range bytes.Lines(text) {
		whole, ok := bytes.CutSuffix(line, []byte("\n"))
		if !ok {
			break
		}
		size += len(line)
		if len(whole) < 3 || whole[1] != ' ' || whole[0] != markStarted && whole[0] != markAcknowledged {
			continue
		}
		if id := string(whole[2:]); validCallID(id) {
			lines = append(lines, logLine{whole[0], id})
		}
	}
	return lines, size
}

// validCallID reports whether id is a valid call id, and therefore safe as a
// file name.
func validCallID(id string) bool {
	return len(id) > 0 && len(id) <= maxCallID && strings.Trim(id,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// take returns the lines that the log had when it was opened. Later calls
// return nil.
func (l *callLog) take() []logLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	read := l.read
	l.read = nil
	return read
}

// start records that the call is about to run.
func (l *callLog) start(id string) error { return l.append(markStarted, id) }

// forget records that the call was acknowledged, and removes its result.
func (l *callLog) forget(id string) error {
	if err := l.append(markAcknowledged, id); err != nil {
		return err
	}
	return l.drop(id)
}

// drop removes the call's result, if there is one.
func (l *callLog) drop(id string) error {
	if err := removeIfThere(l.path(id)); err != nil {
		return fmt.Errorf("call log: %w", err)
	}
	return nil
}

func (l *callLog) append(mark byte, id string) error {
	line := fmt.Appendf(nil, "%c %s\n", mark, id)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(line); err != nil {
		// An incomplete line would corrupt the next one.
		return errors.Join(fmt.Errorf("call log: %w", err), l.file.Truncate(l.size))
	}
	l.size += int64(len(line))
	return nil
}

// keep writes the call's result atomically.
func (l *callLog) keep(id string, result *agentv1.ExecCompleted) error {
	b, err := proto.Marshal(result)
	if err != nil {
		return fmt.Errorf("call log: result of %s: %w", id, err)
	}
	if err := atomicfile.WriteUnsynced(l.path(id), b, 0o600); err != nil {
		return fmt.Errorf("call log: %w", err)
	}
	return nil
}

// result returns the stored result of the call, or fs.ErrNotExist if there is
// none.
func (l *callLog) result(id string) (*agentv1.ExecCompleted, error) {
	b, err := os.ReadFile(l.path(id))
	if err != nil {
		return nil, fmt.Errorf("call log: %w", err)
	}
	result := new(agentv1.ExecCompleted)
	if err := proto.Unmarshal(b, result); err != nil {
		return nil, fmt.Errorf("call log: result of %s: %w", id, err)
	}
	return result, nil
}

func (l *callLog) path(id string) string { return filepath.Join(l.dir, resultsDir, id) }

func (l *callLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

func removeIfThere(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepBootID returns the id of this boot of the machine: the given one, or the
// one stored in dir, or a new one. It stores the id in dir next to the call
// log, since the log is valid only for the same boot.
func keepBootID(dir, given string) (string, error) {
	path := filepath.Join(dir, bootIDName)
	if given == "" {
		if b, err := os.ReadFile(path); err == nil && validCallID(string(b)) {
			return string(b), nil
		}
		given = rand.Text()
	}
	if err := os.WriteFile(path, []byte(given), 0o600); err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return given, nil
}
