package account

import (
	"slices"

	"aloft/internal/fault"
)

// Role is a user's role.
type Role string

// The roles. Each includes the rights of the previous ones.
const (
	Viewer Role = "viewer" // reads everything, changes nothing
	Member Role = "member" // has their own agents, and sees no others
	Admin  Role = "admin"  // sees and controls everyone's agents, and manages the team's settings
	Owner  Role = "owner"  // appoints and removes admins
)

// Roles lists all roles, the one with the fewest rights first.
var Roles = []Role{Viewer, Member, Admin, Owner}

// Covers reports whether the role includes the rights of the other. An unknown
// role includes none.
func (r Role) Covers(other Role) bool {
	have, need := slices.Index(Roles, r), slices.Index(Roles, other)
	return need >= 0 && have >= need
}

// ParseRole parses the name of a role.
func ParseRole(text string) (Role, error) {
	if r := Role(text); slices.Contains(Roles, r) {
		return r, nil
	}
	return "", fault.Invalid("%q is not a role", text).Hint("use owner, admin, member or viewer")
}
