package rest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/conversation"
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
// ids, so the journal itself detects it, and no table of keys has to be kept or
// expired.
func Named(who account.APIKey, scope, key string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.FormatInt(who.UserID, 10)+"\x00"+scope+"\x00"+key)).String()
}

// Reserved is the version of the UUIDs of agents that are made of a caller's key.
// Nobody may choose one, so nobody can take the id that another person's key will
// stand for.
const Reserved = 8

// NamedAgent makes an agent's id of a caller's key, as [named] does for runs.
func NamedAgent(who account.APIKey, scope, key string) string {
	id := uuid.MustParse(Named(who, scope, key))
	id[6] = id[6]&0x0f | Reserved<<4
	return "bc-" + id.String()
}

// IsReserved reports whether only the server gives out a valid id of an agent.
func IsReserved(id string) bool {
	u, err := uuid.Parse(strings.TrimPrefix(id, "bc-"))
	return err == nil && u.Version() == Reserved
}

// IDOfKey returns the id of the agent that a caller's key stands for. An agent
// of the caller's that was made before ids were reserved keeps its own.
func (s *Shared) IDOfKey(ctx context.Context, who account.APIKey, scope, key string) (string, error) {
	old := "bc-" + Named(who, scope, key)
	events, err := s.Journal.Read(ctx, old, 0, 1)
	if err != nil {
		return "", fmt.Errorf("read %s: %w", old, err)
	}
	if len(events) > 0 {
		// Others could choose this id: theirs does not count.
		if c, ok := events[0].Body.(*agent.Created); ok && c.UserID == who.UserID {
			return old, nil
		}
	}
	return NamedAgent(who, scope, key), nil
}

// Repeated returns the first events of the agent if an earlier attempt of the
// same request created it, and otherwise the error taken.
func (s *Shared) Repeated(ctx context.Context, who account.APIKey, id, runID, key string, prompt conversation.Message, taken error) ([]agent.Event, error) {
	if key == "" {
		return nil, taken
	}
	events, err := s.Journal.Read(ctx, id, 0, 2)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", id, err)
	}
	if len(events) < 2 || events[1].RunID != runID {
		return nil, taken
	}
	if c, ok := events[0].Body.(*agent.Created); !ok || c.UserID != who.UserID {
		return nil, taken
	}
	return events, SamePrompt(events[1], prompt)
}

// SamePrompt rejects a key that was used for a different request.
func SamePrompt(e agent.Event, prompt conversation.Message) error {
	_, now, err := agent.Encode(&agent.RunCreated{Prompt: prompt})
	if err != nil {
		return err
	}
	made, ok := e.Body.(*agent.RunCreated)
	if !ok {
		return fmt.Errorf("event %d is no prompt", e.Seq)
	}
	_, then, err := agent.Encode(&agent.RunCreated{Prompt: unfetched(made.Prompt, prompt)})
	if err != nil {
		return err
	}
	if !bytes.Equal(now, then) {
		return fault.Conflict("was already used with another prompt").Named("idempotency_key_reused").At("Idempotency-Key")
	}
	return nil
}

// unfetched returns the journaled message with the images removed that the
// request names by URL: a URL may return another image now, so they are not
// compared.
func unfetched(made, asked conversation.Message) conversation.Message {
	made.Blocks = slices.Clone(made.Blocks)
	for i, b := range asked.Blocks {
		if b.Image != nil && len(b.Image.Data) == 0 && i < len(made.Blocks) && made.Blocks[i].Image != nil {
			made.Blocks[i].Image = b.Image
		}
	}
	return made
}
