package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Commit is what a commit says of itself.
type Commit struct {
	Subject string // one line
	Body    string // may be ""
}

const maxLog = 1 << 20 // bytes of what commits say

// Log returns the commits that tip has and base has not, but for merges: the
// oldest first, of many the newest. Both are commit ids that the mirror has.
func (m *Mirror) Log(ctx context.Context, base, tip string, most int) ([]Commit, error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return nil, fmt.Errorf("log: %q is no commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	var out strings.Builder
	args := []string{"log", "-z", "--reverse", "--no-merges", "--no-color", "--encoding=UTF-8", "--format=%s%n%b", "--max-count=" + strconv.Itoa(most), base + ".." + tip, "--"}
	_, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, stdout: &limitWriter{w: &out, left: maxLog}})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	var commits []Commit
	for text := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		subject, body, _ := strings.Cut(strings.ToValidUTF8(text, "\uFFFD"), "\n")
		if subject != "" || body != "" {
			commits = append(commits, Commit{subject, strings.TrimSpace(body)})
		}
	}
	return commits, nil
}
