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
)

// claim says whether a claimant made a branch. On disk it is a file named after
// both. The file is empty once the upstream took a push; until then it lists the
// commits of pushes whose outcome is unknown, one a line.
type claim struct {
	made  bool     // the upstream took a push
	tried []string // commits that the upstream may have taken
}

// maxTried bounds the pushes of unknown outcome that a claim remembers.
const maxTried = 32

// covers reports whether a branch that the upstream has at commit is the
// claimant's. The upstream compares commit with the branch when it is pushed to.
func (c claim) covers(commit string) bool { return c.made || slices.Contains(c.tried, commit) }

// tryingAlso returns the claim as it is while a push of commit is under way.
func (c claim) tryingAlso(commit string) claim {
	if c.covers(commit) {
		return c
	}
	tried := append(slices.Clone(c.tried), commit)
	return claim{tried: tried[max(0, len(tried)-maxTried):]}
}

// settleClaim records what a push made of the claim: a branch that the upstream took
// is the claimant's, a refused push leaves the claim as it was before, and one of
// unknown outcome leaves its commit in the claim, to be compared with the
// upstream's branch by the next push.
func (m *Mirror) settleClaim(u Update, was claim, out Outcome, err error) error {
	switch {
	case err != nil || was.made:
		return nil
	case out.Reason != "":
		return m.writeClaim(u, was)
	}
	return m.writeClaim(u, claim{made: true})
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
	return claim{tried: strings.Fields(string(data))}, nil
}

// writeClaim replaces the claim's file whole, or removes it where the claim says
// nothing.
func (m *Mirror) writeClaim(u Update, c claim) error {
	name := m.claimFile(u)
	if !c.made && len(c.tried) == 0 {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	text := ""
	if !c.made {
		text = strings.Join(c.tried, "\n") + "\n"
	}
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
