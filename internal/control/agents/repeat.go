package agents

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// findRepeated returns the first events of the agent if an earlier attempt of the
// same request created it, and otherwise the error failure.
func (c *Creator) findRepeated(ctx context.Context, q *Request, prompt conversation.Message, failure error) ([]agent.Event, error) {
	if !q.Repeatable {
		return nil, failure
	}
	first, err := c.Journal.Read(ctx, q.ID, 0, 2)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", q.ID, err)
	}
	if len(first) < 2 || first[1].RunID != q.RunID {
		return nil, failure
	}
	if created, ok := first[0].Body.(*agent.Created); !ok || created.UserID != q.By.UserID {
		return nil, failure
	}
	return first, SamePrompt(first[1], prompt)
}

// SamePrompt rejects a key that was used for a different request. e is the
// event that created the run of the first request.
func SamePrompt(e agent.Event, prompt conversation.Message) error {
	_, now, err := agent.Encode(&agent.RunCreated{Prompt: prompt})
	if err != nil {
		return err
	}
	made, ok := e.Body.(*agent.RunCreated)
	if !ok {
		return fmt.Errorf("event %d is not a prompt", e.Seq)
	}
	_, then, err := agent.Encode(&agent.RunCreated{Prompt: dropFetched(made.Prompt, prompt)})
	if err != nil {
		return err
	}
	if !bytes.Equal(now, then) {
		return fault.Conflict("was already used with another prompt").Named("idempotency_key_reused").At("Idempotency-Key")
	}
	return nil
}

// dropFetched returns the journaled message without the images that the request
// names by URL: a URL may return another image now, so they are not compared.
func dropFetched(made, asked conversation.Message) conversation.Message {
	made.Blocks = slices.Clone(made.Blocks)
	for i, b := range asked.Blocks {
		if b.Image != nil && len(b.Image.Data) == 0 && i < len(made.Blocks) && made.Blocks[i].Image != nil {
			made.Blocks[i].Image = b.Image
		}
	}
	return made
}
