package mirror

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

const maxRef = 255 // bytes; the limit of a file name

// ValidRef reports whether git accepts name as a full ref name (refs/…).
func ValidRef(name string) bool {
	rest, ok := strings.CutPrefix(name, "refs/")
	if !ok || len(name) > maxRef || !strings.Contains(rest, "/") {
		return false
	}
	if strings.Contains(rest, "..") || strings.Contains(rest, "@{") || strings.HasSuffix(rest, ".") {
		return false
	}
	for _, c := range []byte(rest) {
		if c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// ValidBranch reports whether name is valid for a branch and cannot be mistaken
// for an option of a command.
func ValidBranch(name string) bool {
	return !strings.HasPrefix(name, "-") && name != "HEAD" && ValidRef("refs/heads/"+name)
}

var (
	wholeID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	someID  = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
)

// Resolved is the result of resolving a ref.
type Resolved struct {
	Commit string // "" if the repository has no commits
	Branch string // "" unless the ref is a branch
}

// Resolve finds the commit of a branch, a tag, a full ref name or a commit id;
// "" means the default branch. It does not refresh the mirror, but fetches a
// missing commit from the upstream.
func (m *Mirror) Resolve(ctx context.Context, r repourl.Repo, ref string) (Resolved, error) {
	snap := m.Snapshot()
	missing := func() (Resolved, error) {
		return Resolved{}, fault.NotFound("%s has no branch, tag or commit %q", r, Plain(ref)).Named(CodeRefNotFound).
			Hint("check its spelling, or omit it to start from the default branch (%s)", snap.DefaultBranch)
	}
	if ref == "" {
		ref = snap.DefaultBranch
		if len(snap.Refs) == 0 {
			return Resolved{Branch: ref}, nil
		}
	}
	short := strings.TrimPrefix(ref, "refs/heads/")
	if id := snap.ID("refs/heads/" + short); id != "" {
		return Resolved{id, short}, nil
	}
	for _, name := range []string{"refs/tags/" + strings.TrimPrefix(ref, "refs/tags/"), ref} {
		if !ValidRef(name) || snap.ID(name) == "" {
			continue
		}
		id, err := m.commit(ctx, name)
		if err != nil {
			return missing() // a tag of a tree or a blob
		}
		return Resolved{Commit: id}, nil
	}
	ref = strings.ToLower(ref)
	if !someID.MatchString(ref) {
		return missing()
	}
	id, err := m.commit(ctx, ref)
	if err != nil && wholeID.MatchString(ref) {
		if err := m.fetchByID(ctx, r, ref); err != nil && slices.Contains([]string{CodeCredentialRefused, CodeDiskFull}, fault.Of(err).Code) {
			return Resolved{}, err
		}
		id, err = m.commit(ctx, ref)
	}
	if err != nil {
		if ctx.Err() != nil {
			return Resolved{}, context.Cause(ctx)
		}
		return missing()
	}
	return Resolved{Commit: id}, m.keep(ctx, id)
}

// fetchByID fetches a commit from the upstream that is on no branch or tag. It
// first refreshes an empty mirror, such as one whose files were lost.
func (m *Mirror) fetchByID(ctx context.Context, r repourl.Repo, id string) error {
	if len(m.Snapshot().Refs) == 0 {
		if _, err := m.Refresh(ctx, r); err != nil {
			return err
		}
		if _, err := m.commit(ctx, id); err == nil {
			return nil
		}
	}
	if err := m.lockWrite(ctx); err != nil {
		return err
	}
	defer m.unlockWrite()
	err := m.bounded(ctx, r, []string{
		"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--", r.String(), id,
	})
	if err != nil {
		return errors.Join(err, m.removeTemporary())
	}
	return nil
}

// keep creates a ref for a commit that is on no branch or tag, so that it can
// be fetched and is not pruned.
func (m *Mirror) keep(ctx context.Context, id string) error {
	unserved, err := m.Unserved(ctx, []string{id})
	if err != nil || len(unserved) == 0 {
		return err
	}
	_, _, err = m.git(ctx, invocation{args: []string{"update-ref", "refs/aloft/named/" + id, id}, changes: true})
	return err
}

// commit resolves a name, which the caller has validated, to a commit.
func (m *Mirror) commit(ctx context.Context, name string) (string, error) {
	args := []string{"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"}
	out, _, err := m.git(ctx, invocation{args: args})
	return strings.TrimSpace(string(out)), err
}
