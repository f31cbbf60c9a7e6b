package loop

import (
	"context"

	"aloft/internal/control/loop/compact"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// compactIfFull compacts the conversation if the next request would not fit.
func (t *thread) compactIfFull(ctx context.Context) error {
	if !compact.IsFull(t.state(), t.info.ContextWindow) {
		return nil
	}
	return t.compact(ctx)
}

// compact replaces all but the tail of the conversation with a summary by the
// model.
func (t *thread) compact(ctx context.Context) error {
	plan, ok := compact.New(t.state(), t.task, t.info.ContextWindow)
	if !ok {
		return &model.Error{Reason: model.TooLong, Message: "the last messages do not fit the model's context window"}
	}
	t.compacting(ctx)
	summary, used, err := t.summarize(ctx, plan)
	if err != nil {
		return err
	}
	return t.record(ctx, plan.Done(summary, used))
}

// summarize asks the fast model for the summary if its context window is large
// enough. Otherwise, or if the fast model fails, summarize asks the agent's own
// model.
func (t *thread) summarize(ctx context.Context, plan compact.Plan) (summary string, used conversation.Usage, err error) {
	const purpose = "summary"
	own := answerer{t.model, t.info, purpose}
	c := t.fastModel(purpose)
	if c.info.ContextWindow < own.info.ContextWindow {
		c = own
	}
	isFast := c.info.Name() != own.info.Name()
	ask := func(c *answerer) (string, conversation.Usage, error) {
		return t.askAside(ctx, c, plan.Request(c.info.ContextWindow))
	}
	if summary, used, err = ask(&c); err == nil || !isFast || ctx.Err() != nil {
		return summary, used, err
	}
	t.Logger.Warn("the fast model wrote no summary", "model", c.info.ID, "error", err)
	summary, more, err := ask(&own)
	return summary, used.Add(more), err
}
