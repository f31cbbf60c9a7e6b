package mirror

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"aloft/internal/fault"
)

// CodeTooLarge is the fault code for a change with too many bytes.
const CodeTooLarge = "diff_too_large"

// Change returns the merge base of base and tip, and the changes from there to
// tip as git diff --binary --full-index prints them, with renames as renames.
// base and tip are commit ids in the mirror. A change of more than max bytes is
// a fault, and so are commits without a common ancestor.
func (m *Mirror) Change(ctx context.Context, base, tip string, max int) (from string, text []byte, err error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return "", nil, fmt.Errorf("change: %q is not a commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	if from, err = m.MergeBase(ctx, base, tip); err != nil {
		return "", nil, err
	}
	var out bytes.Buffer
	_, _, err = m.git(ctx, invocation{stdout: &limitWriter{w: &out, left: int64(max), partly: true}, args: []string{
		"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/", from, tip, "--",
	}})
	if err != nil && out.Len() >= max {
		return "", nil, fault.Conflict("the changes have more than %d KiB", max>>10).Named(CodeTooLarge)
	}
	return from, out.Bytes(), err
}

// MergeBase returns the merge base of two commits in the mirror. Commits without
// a common ancestor are a fault.
func (m *Mirror) MergeBase(ctx context.Context, base, tip string) (string, error) {
	found, stderr, err := m.git(ctx, invocation{args: []string{"merge-base", "--", base, tip}})
	from := strings.TrimSpace(string(found))
	if err != nil && strings.TrimSpace(stderr) == "" && ctx.Err() == nil {
		return "", fault.Conflict("the commits %.12s and %.12s have no common history", base, tip).Named("no_common_history")
	}
	if err != nil {
		return "", fmt.Errorf("merge base: %w", err)
	}
	if !wholeID.MatchString(from) {
		return "", fmt.Errorf("git says that the merge base is %q", Plain(from))
	}
	return from, nil
}

// maxNames is the maximum size of a list of files that have changed, in bytes.
const maxNames = 1 << 20

// Changed returns the names of the files that differ between two commits in the
// mirror, sorted.
func (m *Mirror) Changed(ctx context.Context, from, to string) ([]string, error) {
	var out bytes.Buffer
	args := []string{"diff", "--name-only", "-z", "--no-renames", from, to, "--"}
	if _, _, err := m.git(ctx, invocation{args: args, stdout: &limitWriter{w: &out, left: maxNames}}); err != nil {
		return nil, fmt.Errorf("list changed files: %w", err)
	}
	return strings.FieldsFunc(out.String(), func(r rune) bool { return r == 0 }), nil
}
