package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/atomicfile"
	"aloft/internal/control/mirror/owner"
	"aloft/internal/control/repourl"
)

// claim records what a claimant pushed to a branch. On disk it is a file named
// after the claimant and the branch, with one commit per line. A first line
// "made" means that the upstream has accepted a push. Older servers wrote an
// empty file, which means that the upstream has accepted an unknown commit.
type claim struct {
	made bool // the upstream has accepted a push
	// commits lists the commit of the last accepted push, and the commits of
	// later pushes whose outcome is unknown. The branch belongs to the claimant
	// while it points to one of these commits.
	commits []string
}

// firstLine is the first line of a claim's file once the upstream has accepted a
// push.
const firstLine = "made"

// maxTried is how many commits a claim remembers.
const maxTried = 32

// covers reports whether the claimant has pushed commit, the commit of the
// upstream's branch as last seen. During a push, the upstream itself checks
// that the branch is still at that commit.
func (c claim) covers(commit string) bool { return slices.Contains(c.commits, commit) }

// tryingAlso returns the claim to store while a push of commit is in progress.
func (c claim) tryingAlso(commit string) claim {
	if c.covers(commit) {
		return c
	}
	commits := append(slices.Clone(c.commits), commit)
	return claim{c.made, commits[max(0, len(commits)-maxTried):]}
}

// settleClaim updates the claim after a push. If the upstream accepted it, the
// branch belongs to the claimant. If the upstream refused it, the claim is
// restored. If the outcome is unknown, the claim keeps the commit, and the next
// push compares it with the upstream's branch.
func (m *Mirror) settleClaim(u Update, was claim, out Outcome, err error) error {
	switch {
	case err != nil:
		return nil //nolint:nilerr // the outcome is unknown
	case out.Reason != "":
		return m.writeClaim(u, was)
	}
	return m.writeClaim(u, claim{true, []string{u.New}})
}

// judgeClaim returns the claim on the branch of an update, and restricts the
// update accordingly. If somebody else has moved, or deleted and recreated, the
// branch, only a fast-forward is allowed. An update of a branch that the
// claimant does not own is refused.
func (m *Mirror) judgeClaim(r repourl.Repo, u *Update) (was claim, out Outcome, err error) {
	if was, err = m.readClaim(*u); err != nil {
		return was, Outcome{}, err
	}
	was.made = was.made || u.Made
	switch {
	case isZero(u.Old), was.covers(u.Old):
	case was.made:
		u.moved, u.AllowForce = true, false
	default:
		return was, taken(r, *u), nil
	}
	return was, Outcome{}, nil
}

func (m *Mirror) claimFile(u Update) string {
	sum := sha256.Sum256([]byte(u.Claim + "\x00" + u.Branch))
	return filepath.Join(m.dir, owner.ClaimsFolder, hex.EncodeToString(sum[:]))
}

func (m *Mirror) readClaim(u Update) (claim, error) {
	data, err := os.ReadFile(m.claimFile(u))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return claim{}, nil
	case err != nil:
		return claim{}, err
	case len(data) == 0:
		return claim{made: true}, nil
	}
	lines := strings.Fields(string(data))
	if lines[0] == firstLine {
		return claim{true, lines[1:]}, nil
	}
	return claim{commits: lines}, nil
}

// writeClaim atomically replaces the claim's file, or removes it if the claim
// is empty.
func (m *Mirror) writeClaim(u Update, c claim) error {
	name := m.claimFile(u)
	if !c.made && len(c.commits) == 0 {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	lines := c.commits
	if c.made {
		lines = append([]string{firstLine}, lines...)
	}
	return atomicfile.Write(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
