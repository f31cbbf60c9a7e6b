package account

import (
	"slices"

	"aloft/internal/fault"
)

// Role is how much a user may do.
type Role string

// The roles, each with all that those before it have.
const (
	Viewer Role = "viewer" // reads everything, changes nothing
	Member Role = "member" // has agents of their own, and sees no others
	Admin  Role = "admin"  // sees and stops everybody's, and settles what counts for the team
	Owner  Role = "owner"  // makes and unmakes admins
)

// Roles are all of them, the least first.
var Roles = []Role{Viewer, Member, Admin, Owner}

// Covers reports whether the role allows what needs the other. One that is
// unknown covers nothing.
func (r Role) Covers(other Role) bool {
	have, need := slices.Index(Roles, r), slices.Index(Roles, other)
	return need >= 0 && have >= need
}

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if r := Role(text); slices.Contains(Roles, r) {
		return r, nil
	}
	return "", fault.Invalid("%q is no role", text).Hint("it is owner, admin, member or viewer")
}
