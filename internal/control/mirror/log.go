package mirror

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Commit is the metadata of a commit.
type Commit struct {
	Subject string // first line of the message
	Body    string // rest of the message; may be ""
}

const maxLog = 1 << 20 // bytes of git log's output

// Log returns the commits reachable from tip but not from base, without merges,
// oldest first. If there are more than most, it returns the newest ones. Both
// are commit ids in the mirror.
func (m *Mirror) Log(ctx context.Context, base, tip string, most int) ([]Commit, error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return nil, fmt.Errorf("log: %q is not a commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	var out strings.Builder
	args := []string{"log", "-z", "--reverse", "--no-merges", "--no-color", "--encoding=UTF-8", "--format=%s%n%b", "--max-count=" + strconv.Itoa(most), base + ".." + tip, "--"}
	_, _, err := m.git(ctx, invocation{args: args, stdout: &limitWriter{w: &out, left: maxLog}})
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
