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
)

// claim says what a claimant pushed to a branch. On disk it is a file named after
// both. Its lines are the commits; a first line "made" says that the upstream took
// one of the pushes. An empty file says the same of an unknown commit: servers wrote
// it before they recorded the commit.
type claim struct {
	made bool // the upstream took a push
	// commits are the one of the last push that the upstream took, and those of
	// later pushes of unknown outcome. The branch is the claimant's while it stands at
	// one of them.
	commits []string
}

// firstLine begins the file of a claim that the upstream took a push of.
const firstLine = "made"

// maxTried bounds the commits that a claim remembers.
const maxTried = 32

// covers reports whether a branch that the upstream has at commit is as the
// claimant pushed it. The upstream compares commit with the branch when it is
// pushed to.
func (c claim) covers(commit string) bool { return slices.Contains(c.commits, commit) }

// tryingAlso returns the claim as it is while a push of commit is under way.
func (c claim) tryingAlso(commit string) claim {
	if c.covers(commit) {
		return c
	}
	commits := append(slices.Clone(c.commits), commit)
	return claim{c.made, commits[max(0, len(commits)-maxTried):]}
}

// settleClaim records what a push made of the claim: a branch that the upstream took
// is the claimant's while it stands at that commit, a refused push leaves the claim
// as it was before, and one of unknown outcome leaves its commit in the claim, to be
// compared with the upstream's branch by the next push.
func (m *Mirror) settleClaim(u Update, was claim, out Outcome, err error) error {
	switch {
	case err != nil:
		return nil
	case out.Reason != "":
		return m.writeClaim(u, was)
	}
	return m.writeClaim(u, claim{true, []string{u.New}})
}

// judgeClaim returns the claim on the branch of an update, and narrows the update to
// it: a branch that somebody else has moved, or has made again after it was deleted,
// may be added to but not rewritten. A branch that is none of the claimant's is
// refused.
func (m *Mirror) judgeClaim(r Repo, u *Update) (was claim, out Outcome, err error) {
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
	return filepath.Join(m.dir, "claims", hex.EncodeToString(sum[:]))
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

// writeClaim replaces the claim's file whole, or removes it where the claim says
// nothing.
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
