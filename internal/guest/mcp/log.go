package mcp

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aloft/internal/redact"
)

// Bounds, in bytes, of what a server says on stderr: of the file, which is begun
// anew when it is full, and of what is kept at hand for an error.
const (
	maxLog  = 1 << 20
	maxLast = 2 << 10
)

// stderrLog keeps what a server says, without the secrets that there are.
type stderrLog struct {
	path string // "" where there is no file
	live io.WriteCloser

	mu   sync.Mutex
	file *os.File
	size int
	tail []byte
}

func newStderrLog(dir, name string, secrets func() *redact.Redactor) *stderrLog {
	l := &stderrLog{}
	if dir != "" && os.MkdirAll(dir, 0o700) == nil {
		path := filepath.Join(dir, strings.Map(func(r rune) rune {
			if strings.ContainsRune("/ @", r) {
				return '_'
			}
			return r
		}, strings.ToLower(name))+".log")
		_ = os.Remove(path) // a link that somebody put there must not be followed
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			l.path, l.file = path, f
		}
	}
	if secrets == nil {
		secrets = func() *redact.Redactor { return nil }
	}
	l.live = redact.NewLive(kept{l}, secrets)
	return l
}

// Write implements io.Writer. It never fails: a server is not to end because its
// log cannot be kept.
func (l *stderrLog) Write(p []byte) (int, error) {
	_, _ = l.live.Write(p)
	return len(p), nil
}

// kept is where the words go once they are clean.
type kept struct{ *stderrLog }

func (k kept) Write(p []byte) (int, error) {
	l := k.stderrLog
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail = append(l.tail, p...); len(l.tail) > maxLast {
		l.tail = append([]byte(nil), l.tail[len(l.tail)-maxLast:]...)
	}
	if l.file == nil {
		return len(p), nil
	}
	if l.size+len(p) > maxLog {
		if l.file.Truncate(0) != nil {
			return len(p), nil
		}
		if _, err := l.file.Seek(0, io.SeekStart); err != nil {
			return len(p), nil
		}
		l.size = 0
	}
	n, _ := l.file.Write(p[max(0, len(p)-maxLog):])
	l.size += n
	return len(p), nil
}

// last is the end of what was said.
func (l *stderrLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.tail), ""))
	if i := len(text) - 500; i > 0 {
		text = "…" + strings.ToValidUTF8(text[i:], "")
	}
	return text
}

func (l *stderrLog) close() {
	_ = l.live.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close() // what it holds is written
		l.file = nil
	}
}
