package fleet

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
)

// NewID returns an id for a machine that contains its agent's id, so
// that the owner of a machine can always be found.
func NewID(agentID string) string {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return agentID + "-" + hex.EncodeToString(b[:])
}

var machineID = regexp.MustCompile(`^(bc-[0-9a-fA-F-]{36})-[0-9a-f]{4}$`)

// AgentOf returns the agent for which a machine was created.
func AgentOf(machine string) (agentID string, ok bool) {
	m := machineID.FindStringSubmatch(machine)
	if m == nil {
		return "", false
	}
	return m[1], true
}
