package agents

import (
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"
)

// Reserved is the version of the UUIDs in ids of agents that only the server gives
// out: those derived from a caller's key, and those of [ReservedID]. Clients may not
// choose one, so nobody can take the id that another person's key will stand for.
const Reserved = 8

// IsReserved reports whether only the server gives out a valid id of an agent.
func IsReserved(id string) bool {
	u, err := uuid.Parse(strings.TrimPrefix(id, "bc-"))
	return err == nil && u.Version() == Reserved
}

// ReservedID returns an agent id for the words that no client can choose. The
// same words always return the same id.
func ReservedID(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	var id uuid.UUID
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | Reserved<<4
	id[8] = id[8]&0x3f | 0x80
	return "bc-" + id.String()
}
