package checkout

import (
	"regexp"
	"strings"
	"time"
)

// Limits of the parts of git's output that are kept, in bytes.
const (
	maxTail   = 8 << 10
	maxDetail = 2 << 10
	maxHook   = 6 << 10 // output of the project's hooks
	maxLine   = 1 << 10
)

// progressInterval is the minimum time between two progress reports.
const progressInterval = time.Second

// tail is a writer for git's stderr: it reports progress, and keeps the last
// lines that are not progress.
type tail struct {
	progress func(string) // may be nil
	reported time.Time
	line     []byte
	recent   []string
	size     int
}

func newTail(progress func(string)) *tail { return &tail{progress: progress} }

func (t *tail) Write(p []byte) (int, error) {
	for _, c := range p {
		if c == '\n' || c == '\r' {
			t.endLine()
		} else if len(t.line) < maxLine {
			t.line = append(t.line, c)
		}
	}
	return len(p), nil
}

// counting matches a line of git's progress output: "Receiving objects:  45%
// (600/1347), …".
var counting = regexp.MustCompile(`^(?:remote: )?([A-Z][a-z]+(?: [a-z]+){0,3}): +(\d{1,3}%|\d+)(?: \(\d+/\d+\))?(?:, .*)?$`)

func (t *tail) endLine() {
	line := strings.TrimRight(strings.ToValidUTF8(string(t.line), ""), " \t")
	t.line = t.line[:0]
	if line == "" || strings.HasPrefix(line, "Cloning into ") {
		return
	}
	if m := counting.FindStringSubmatch(line); m != nil {
		if now := time.Now(); t.progress != nil && now.Sub(t.reported) >= progressInterval {
			t.reported = now
			t.progress(strings.ToLower(m[1]) + " " + m[2])
		}
		return
	}
	t.recent = append(t.recent, line)
	t.size += len(line) + 1
	for t.size > maxTail {
		t.size -= len(t.recent[0]) + 1
		t.recent = t.recent[1:]
	}
}

// lines returns the last complete lines, at most maxDetail bytes.
func (t *tail) lines() string { return t.last(maxDetail) }

// last returns the last complete lines, at most limit bytes.
func (t *tail) last(limit int) string {
	t.endLine()
	size, first := 0, len(t.recent)
	for first > 0 && size+len(t.recent[first-1])+1 <= limit {
		first--
		size += len(t.recent[first]) + 1
	}
	if first == len(t.recent) {
		return "git printed nothing"
	}
	return strings.Join(t.recent[first:], "\n")
}
