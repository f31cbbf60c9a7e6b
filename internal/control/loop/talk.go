package loop

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/model"
)

// A talk works one conversation with a model: it asks, and works the calls of
// the reply. The run has one, the agent's own. Like the loop it holds nothing
// that the journal does not.
type talk struct {
	*Loop
	model model.Model
	info  model.Info
}

// state is how the journal stands, with this conversation's thread. It stays as
// it is.
func (t *talk) state() *agent.State { return t.rec.snapshot() }

// record journals what happens in this conversation.
func (t *talk) record(ctx context.Context, bodies ...agent.Body) error {
	return t.rec.record(ctx, bodies...)
}

// step does what is next in the conversation. It reports whether that was
// nothing, since the model has said its last.
func (t *talk) step(ctx context.Context) (said bool, err error) {
	switch t.state().Next() {
	case agent.NextReply:
		return false, t.reply(ctx)
	case agent.NextCalls:
		return false, t.calls(ctx)
	}
	return true, nil
}
