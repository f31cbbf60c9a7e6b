package checkout

import (
	"regexp"
	"strings"
	"time"
)

// Bounds of what is kept of git's words, in bytes.
const (
	maxTail   = 8 << 10
	maxDetail = 2 << 10
	maxHook   = 6 << 10 // of what the project's hooks said
	maxLine   = 1 << 10
)

// progressInterval is the least time between two reports of progress.
const progressInterval = time.Second

// tail is a writer for git's stderr: it tells progress and keeps the last
// words that are not progress.
type tail struct {
	progress func(string) // may be nil
	told     time.Time
	line     []byte
	kept     []string
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

// counting is a line of git's progress: "Receiving objects:  45% (600/1347), …".
var counting = regexp.MustCompile(`^(?:remote: )?([A-Z][a-z]+(?: [a-z]+){0,3}): +(\d{1,3}%|\d+)(?: \(\d+/\d+\))?(?:, .*)?$`)

func (t *tail) endLine() {
	line := strings.TrimRight(strings.ToValidUTF8(string(t.line), ""), " \t")
	t.line = t.line[:0]
	if line == "" || strings.HasPrefix(line, "Cloning into ") {
		return
	}
	if m := counting.FindStringSubmatch(line); m != nil {
		if now := time.Now(); t.progress != nil && now.Sub(t.told) >= progressInterval {
			t.told = now
			t.progress(strings.ToLower(m[1]) + " " + m[2])
		}
		return
	}
	t.kept = append(t.kept, line)
	t.size += len(line) + 1
	for t.size > maxTail {
		t.size -= len(t.kept[0]) + 1
		t.kept = t.kept[1:]
	}
}

// lines are the last words, at most maxDetail bytes of whole lines.
func (t *tail) lines() string { return t.last(maxDetail) }

// last are the last words, at most so many bytes of whole lines.
func (t *tail) last(most int) string {
	t.endLine()
	size, first := 0, len(t.kept)
	for first > 0 && size+len(t.kept[first-1])+1 <= most {
		first--
		size += len(t.kept[first]) + 1
	}
	if first == len(t.kept) {
		return "git said nothing"
	}
	return strings.Join(t.kept[first:], "\n")
}
