package process

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Limits of how much of a service's output is logged and kept, in bytes.
const (
	maxLogLine = 4 << 10
	maxWords   = 2 << 10
)

// lastWords logs a service's output and keeps the last part.
type lastWords struct {
	drained chan struct{} // closed when all output is read

	mu    sync.Mutex
	lines []string
	size  int
}

// listen reads r until EOF in the background, then closes it. It redacts secret. It also
// writes the output to printed, unless printed is nil.
func listen(r io.ReadCloser, log *slog.Logger, secret string, printed *Output) *lastWords {
	w := &lastWords{drained: make(chan struct{})}
	go func() {
		defer close(w.drained)
		defer func() { _ = r.Close() }()
		in := bufio.NewReaderSize(r, maxLogLine)
		for {
			chunk, err := in.ReadSlice('\n')
			if len(chunk) > 0 {
				line := strings.ToValidUTF8(strings.TrimRight(string(chunk), "\n"), "")
				if secret != "" {
					line = strings.ReplaceAll(line, secret, "***")
				}
				log.Info("output", "line", line)
				w.keep(line)
				if printed != nil {
					whole := ""
					if !errors.Is(err, bufio.ErrBufferFull) {
						whole = "\n"
					}
					printed.write(line + whole)
				}
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	return w
}

func (w *lastWords) keep(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
	w.size += len(line) + 1
	for w.size > maxWords && len(w.lines) > 1 {
		w.size -= len(w.lines[0]) + 1
		w.lines = w.lines[1:]
	}
}

// after waits until all output is read, but at most d, since another process may keep
// the output open. It returns the kept output.
func (w *lastWords) after(d time.Duration) string {
	select {
	case <-w.drained:
	case <-time.After(d):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		return "it printed nothing"
	}
	return strings.Join(w.lines, "\n")
}
