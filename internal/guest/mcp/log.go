package mcp

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aloft/internal/redact"
)

// Limits of a server's stderr, in bytes: of the log file, which is emptied when full,
// and of the last output, which is kept in memory for error messages.
const (
	maxLog  = 1 << 20
	maxLast = 2 << 10
)

// stderrLog keeps a server's stderr, with secrets redacted.
type stderrLog struct {
	path string // "" if there is no file
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
		_ = os.Remove(path) // do not follow a link that somebody may have created at the path
		if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
			l.path, l.file = path, f
		}
	}
	if secrets == nil {
		secrets = func() *redact.Redactor { return nil }
	}
	l.live = redact.NewLive(redactedLog{l}, secrets)
	return l
}

// Write implements io.Writer. It never fails, so that a logging error does not
// stop the server.
func (l *stderrLog) Write(p []byte) (int, error) {
	_, _ = l.live.Write(p)
	return len(p), nil
}

// redactedLog receives the output after redaction.
type redactedLog struct{ *stderrLog }

func (k redactedLog) Write(p []byte) (int, error) {
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

// last returns the end of the output.
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
		_ = l.file.Close() // the data has been written
		l.file = nil
	}
}
