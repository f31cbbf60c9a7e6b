package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/fault"
)

// Access says on which repositories members may run agents. The zero value
// allows everything that the server's configured credentials can access.
type Access struct {
	// Limited says that the lists apply. If it is false, they are stored but
	// have no effect.
	Limited  bool               `json:"limited,omitempty"`
	Everyone []string           `json:"everyone,omitempty"` // patterns for all members
	Members  map[int64][]string `json:"members,omitempty"`  // patterns for single members, by user
}

// ParseAccess parses the result of String; "" is the zero value.
func ParseAccess(text string) (a Access, err error) {
	if text == "" {
		return a, nil
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, fmt.Errorf("repository access: %w", err)
	}
	return a, nil
}

// String returns the JSON that ParseAccess parses.
func (a Access) String() string {
	data, _ := json.Marshal(a) // cannot fail: only strings and numbers
	return string(data)
}

// Reaches reports whether the user may run agents on the repository, given in the form
// host/path. Admins and owners may use all repositories, because they maintain the
// lists.
func (a Access) Reaches(userID int64, role Role, repo string) bool {
	if !a.Limited || role.Covers(Admin) {
		return true
	}
	if strings.ContainsAny(repo, `%\`) || slices.ContainsFunc(strings.Split(repo, "/"), func(part string) bool { return strings.Trim(part, ".") == "" }) {
		return false // a server may resolve the path to another repository
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

// CheckPattern returns a fault for a pattern that [Access.Reaches] cannot match. Valid
// patterns are a repository (host/path), all repositories below a folder (host/path/* or
// host/*), and all repositories (*).
func CheckPattern(pattern string) error {
	below, star := strings.CutSuffix(pattern, "/*")
	if pattern == "*" {
		return nil
	}
	parts := strings.Split(below, "/")
	bad := strings.ContainsAny(below, "*?%\\ \t\n@") || !star && len(parts) < 2 ||
		slices.ContainsFunc(parts, func(part string) bool { return strings.Trim(part, ".") == "" })
	if bad {
		return fault.Invalid("%q does not name a repository", pattern).Hint("write github.com/owner/name, github.com/owner/* for all of an owner, or * for all")
	}
	return nil
}
