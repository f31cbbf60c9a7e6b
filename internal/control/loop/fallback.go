package loop

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// answerer is the model that answers requests, until its fallback replaces it.
type answerer struct {
	model model.Model
	info  model.Info
	// purpose is [agent.ModelFallback.Purpose].
	purpose string
}

// keepFallback restores the conversation's fallback model after a restart in
// another process. If that model is no longer configured, nothing changes.
func (t *thread) keepFallback() {
	name := t.state().Fallback
	if name == "" || name == t.info.Name() || t.Models.Named == nil {
		return
	}
	if m, info, err := t.Models.Named(name); err == nil {
		t.model, t.info = m, info
	}
}

// fallBack replaces the model of c by its fallback if the provider was busy too
// often, and journals the change. It returns false if it replaces nothing.
func (t *thread) fallBack(ctx context.Context, c *answerer, failed *model.Error, attempt int) (bool, error) {
	if !failed.Busy() || c.info.Fallback == "" || attempt < c.info.FallbackAfter || t.Models.Named == nil {
		return false, nil
	}
	m, info, err := t.Models.Named(c.info.Fallback)
	if err != nil || t.payable(info) != nil || !info.Images && c.purpose == "" && t.showsImages() {
		return false, nil //nolint:nilerr // waiting for the first model is better than a run that fails
	}
	err = t.record(ctx,
		&agent.ModelRetry{Reason: string(failed.Reason), Message: failed.Message, Attempt: attempt, Attempts: attempts(failed)},
		&agent.ModelFallback{From: c.info.Name(), To: info.Name(), Reason: string(failed.Reason), Message: failed.Message, Attempts: attempt, Purpose: c.purpose})
	c.model, c.info = m, info
	return true, err
}

// showsImages reports whether the conversation has an image.
func (t *thread) showsImages() bool {
	for _, m := range t.state().Messages {
		for _, b := range m.Blocks {
			if b.Image != nil || b.Result != nil && len(b.Result.Images) > 0 {
				return true
			}
		}
	}
	return false
}

// fastModel returns the model for small requests: the fast model, or else the
// agent's own. purpose describes the request.
func (t *thread) fastModel(purpose string) answerer {
	c := answerer{t.model, t.info, purpose}
	if t.Models.Fast == "" || t.Models.Named == nil {
		return c
	}
	if m, info, err := t.Models.Named(t.Models.Fast); err == nil && t.payable(info) == nil {
		c.model, c.info = m, info
	}
	return c
}

// askAside sends c one request that is not part of the conversation. It returns
// the text of the reply, and the usage with its cost. It retries like a request
// of the conversation.
func (t *thread) askAside(ctx context.Context, c *answerer, req model.Request) (text string, used conversation.Usage, err error) {
	err = t.patiently(ctx, c, func(ctx context.Context) error {
		var once conversation.Usage
		var err error
		text, once, err = c.answer(ctx, req)
		used = used.Add(once)
		return err
	})
	return text, used, err
}

// answer sends one request and returns the text of the reply and the usage with
// its cost.
func (c *answerer) answer(ctx context.Context, req model.Request) (text string, used conversation.Usage, err error) {
	var reply *model.Reply
	for e, err := range c.model.Stream(ctx, req) {
		if err != nil {
			return "", used, err
		}
		if e.Done != nil {
			reply = e.Done
		}
	}
	if reply == nil {
		return "", used, errEmpty
	}
	used = c.info.Price.Of(reply.Usage)
	if text = reply.Message.PlainText(); text == "" {
		return "", used, errEmpty
	}
	return text, used, nil
}
