package agents

import (
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"
)

// Reserved is the UUID version of agent ids that only the server assigns: ids
// derived from a caller's key, and ids from [ReservedID]. Clients may not
// choose such an id, so nobody can take the id that will be derived from
// another person's key.
const Reserved = 8

// IsReserved reports whether only the server assigns the given valid agent id.
func IsReserved(id string) bool {
	u, err := uuid.Parse(strings.TrimPrefix(id, "bc-"))
	return err == nil && u.Version() == Reserved
}

// ReservedID derives an agent id from the words. No client can choose such an
// id. The same words always give the same id.
func ReservedID(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | Reserved<<4
	id[8] = id[8]&0x3f | 0x80
	return "bc-" + id.String()
}
