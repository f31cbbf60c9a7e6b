package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/fault"
)

// Access says which repositories members may run agents on. Its zero value lets
// them reach whatever the credentials of the server's configuration reach.
type Access struct {
	// Limited has the lists count. Without it they are kept and do nothing.
	Limited  bool               `json:"limited,omitempty"`
	Everyone []string           `json:"everyone,omitempty"` // patterns that hold for all members
	Members  map[int64][]string `json:"members,omitempty"`  // and for single ones, by user
}

// ParseAccess reads what String wrote; "" is the zero value.
func ParseAccess(text string) (a Access, err error) {
	if text == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("repository access: %w", err)
	}
	return a, nil
}

// String is what ParseAccess reads.
func (a Access) String() string {
	data, _ := json.Marshal(a) // of strings and numbers
	return string(data)
}

// Reaches reports whether the user may run agents on the repository, which is in
// the form host/path. Admins and owners, who keep the lists, are not limited.
func (a Access) Reaches(userID int64, role Role, repo string) bool {
	if !a.Limited || role.Covers(Admin) {
		return true
	}
	if strings.ContainsAny(repo, `%\`) || slices.ContainsFunc(strings.Split(repo, "/"), func(part string) bool { return strings.Trim(part, ".") == "" }) {
		return false // a server may take it for another repository than it seems to name
	}
	is := func(pattern string) bool { return matches(pattern, repo) }
	return slices.ContainsFunc(a.Everyone, is) || slices.ContainsFunc(a.Members[userID], is)
}

func matches(pattern, repo string) bool {
	if below, ok := strings.CutSuffix(pattern, "*"); ok { // "*", or "host/path/*"
		return strings.HasPrefix(repo, below) && len(repo) > len(below)
	}
	return pattern == repo
}

// CheckPattern returns a fault unless the pattern, of the form that
// [Access.Reaches] compares, names a repository (host/path), all below a folder
// of repositories (host/path/*, host/*), or all there are (*).
func CheckPattern(pattern string) error {
	below, star := strings.CutSuffix(pattern, "/*")
	if pattern == "*" {
		return nil
	}
	parts := strings.Split(below, "/")
	bad := strings.ContainsAny(below, "*?%\\ \t\n@") || !star && len(parts) < 2 ||
		slices.ContainsFunc(parts, func(part string) bool { return strings.Trim(part, ".") == "" })
	if bad {
		return fault.Invalid("%q names no repository", pattern).Hint("write github.com/owner/name, github.com/owner/* for all of an owner, or * for all")
	}
	return nil
}
