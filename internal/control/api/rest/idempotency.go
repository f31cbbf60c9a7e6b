package rest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/fault"

	"github.com/google/uuid"
)

// IdempotencyParam describes the header Idempotency-Key.
var IdempotencyParam = Param{Name: "Idempotency-Key", Kind: "string", Words: "repeating a request with the same key returns the first reply again"}

const maxIdempotencyKey = 255

// IdempotencyKey returns the request's key, or "".
func IdempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxIdempotencyKey {
		return "", fault.Invalid("has more than %d bytes", maxIdempotencyKey).At("Idempotency-Key")
	}
	return key, nil
}

// Named derives a UUID from a caller's key. A repeated request yields the same
// ids, so the journal itself detects the repetition, and no table of keys is
// needed.
func Named(who account.APIKey, scope, key string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.FormatInt(who.UserID, 10)+"\x00"+scope+"\x00"+key)).String()
}

// NamedAgent derives an agent's id from a caller's key, as [Named] does for
// runs.
func NamedAgent(who account.APIKey, scope, key string) string {
	id := uuid.MustParse(Named(who, scope, key))
	id[6] = id[6]&0x0f | agents.Reserved<<4
	return "bc-" + id.String()
}

// IDOfKey derives the agent id from a caller's key. If the caller created an
// agent with that key before ids were reserved, IDOfKey returns the older id of
// that agent.
func (s *Shared) IDOfKey(ctx context.Context, who account.APIKey, scope, key string) (string, error) {
	old := "bc-" + Named(who, scope, key)
	events, err := s.Journal.Read(ctx, old, 0, 1)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", old, err)
	}
	if len(events) > 0 {
		// Other users can choose this id for their agents, so check the owner.
		if c, ok := events[0].Body.(*agent.Created); ok && c.UserID == who.UserID {
			return old, nil
		}
	}
	return NamedAgent(who, scope, key), nil
}
