package forge

import (
	"strings"
	"unicode"

	"aloft/internal/fault"
)

// Check refuses what no host takes. Adapters call it before they ask.
func (n NewPullRequest) Check() error {
	switch {
	case !n.Repo.valid():
		return fault.Invalid("%q is no repository of a forge", Line(n.Repo.String(), maxWords)).Named(CodeRefused)
	case !plainBranch(n.Head) || !plainBranch(n.Base):
		return fault.Invalid("a pull request needs the names of two branches, and %q and %q are not", Line(n.Head, 200), Line(n.Base, 200)).Named(CodeRefused)
	case n.Head == n.Base:
		return fault.Invalid("a pull request goes from one branch to another, and both are %s", n.Head).Named(CodeRefused)
	case Line(n.Title, 1) == "":
		return fault.Invalid("a pull request needs a title").Named(CodeRefused)
	}
	return nil
}

// Check refuses a change that no host makes.
func (c Change) Check() error {
	switch {
	case c.Title != nil && Line(*c.Title, 1) == "":
		return fault.Invalid("a pull request needs a title").Named(CodeRefused)
	case c.State != nil && *c.State != Open && *c.State != Closed:
		return fault.Invalid("a pull request is made open or closed, and %q is neither", *c.State).Named(CodeRefused)
	}
	return nil
}

// plainBranch reports whether the name can be a branch's that every host reads
// as just that. A colon would name a fork's.
func plainBranch(s string) bool {
	return s != "" && len(s) <= 250 && s[0] != '-' && !strings.HasPrefix(s, "refs/") && !strings.Contains(s, "..") &&
		!strings.ContainsAny(s, " ~^:?*[\\\x7f") && !strings.ContainsFunc(s, unicode.IsControl)
}

// CheckComment refuses what no host takes for a comment.
func CheckComment(body string) error {
	if strings.TrimSpace(body) == "" {
		return fault.Invalid("a comment needs words").Named(CodeRefused)
	}
	return nil
}
