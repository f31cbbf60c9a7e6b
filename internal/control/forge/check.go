package forge

import (
	"strings"
	"unicode"

	"aloft/internal/fault"
)

// Check returns a fault for values that no host accepts. Adapters call it
// before the request.
func (n NewPullRequest) Check() error {
	switch {
	case !n.Repo.valid():
		return fault.Invalid("%q is not a repository of a forge", Line(n.Repo.String(), maxWords)).Named(CodeRefused)
	case !plainBranch(n.Head) || !plainBranch(n.Base):
		return fault.Invalid("a pull request needs two valid branch names, not %q and %q", Line(n.Head, 200), Line(n.Base, 200)).Named(CodeRefused)
	case n.Head == n.Base:
		return fault.Invalid("a pull request goes from one branch to another, and both are %s", n.Head).Named(CodeRefused)
	case Line(n.Title, 1) == "":
		return fault.Invalid("a pull request needs a title").Named(CodeRefused)
	}
	return nil
}

// Check returns a fault for changes that no host accepts.
func (c Change) Check() error {
	switch {
	case c.Title != nil && Line(*c.Title, 1) == "":
		return fault.Invalid("a pull request needs a title").Named(CodeRefused)
	case c.State != nil && *c.State != Open && *c.State != Closed:
		return fault.Invalid("the state of a pull request must be open or closed, not %q", *c.State).Named(CodeRefused)
	}
	return nil
}

// plainBranch reports whether every host interprets the name as a branch of the
// repository itself. A colon would refer to a fork.
func plainBranch(s string) bool {
	return s != "" && len(s) <= 250 && s[0] != '-' && !strings.HasPrefix(s, "refs/") && !strings.Contains(s, "..") &&
		!strings.ContainsAny(s, " ~^:?*[\\\x7f") && !strings.ContainsFunc(s, unicode.IsControl)
}

// CheckComment returns a fault for a comment that no host accepts.
func CheckComment(body string) error {
	if strings.TrimSpace(body) == "" {
		return fault.Invalid("a comment must not be empty").Named(CodeRefused)
	}
	return nil
}
