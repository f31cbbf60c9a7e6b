package loop

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

//go:embed prompts/title.md
var titleWords string

// titleSchema is the format of the model's reply.
const titleSchema = `{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}`

// Limits of a request for a title.
const (
	maxTitleTask = 4_000 // bytes of the prompt that the model sees
	titleReply   = 256   // tokens
	titleWithin  = 30 * time.Second
)

// startTitle asks the fast model for the agent's title while the first run
// works. The returned function waits for the title, and cancels the request if
// ctx ends. Without a fast model, the agent is named by the first words of its
// prompt. A name that a person has chosen stays.
func (l *Loop) startTitle(ctx context.Context) (wait func()) {
	s := l.rec.Snapshot()
	if l.Models.Fast == "" || len(s.Asked) != 1 || s.Titled || s.Fork != nil || s.Agent.Env.Preset != "" || s.Agent.Name != agent.NameFrom(s.Asked[0]) {
		return func() {}
	}
	c := l.own.fastModel("title")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := fault.Contain(func() error { return l.title(ctx, c, s.Asked[0]) }); err != nil && ctx.Err() == nil {
			l.Logger.Warn("the agent has no title", "error", err)
		}
	}()
	return func() { <-done }
}

// title asks c once for a title and journals it.
func (l *Loop) title(ctx context.Context, c answerer, prompt string) error {
	ctx, stop := context.WithTimeout(ctx, titleWithin)
	defer stop()
	text, used, err := c.answer(ctx, model.Request{
		System: titleWords, Messages: []conversation.Message{conversation.Text(conversation.User, compact.Cut(prompt, maxTitleTask))},
		MaxTokens: titleReply, Schema: json.RawMessage(titleSchema),
	})
	if err != nil {
		return err
	}
	var in struct {
		Title string `json:"title"`
	}
	if err := model.ReadObject(text, &in); err != nil || strings.TrimSpace(in.Title) == "" {
		return errors.New("the model's reply is not a title")
	}
	return l.rec.Record(ctx, &agent.Titled{Title: agent.NameFrom(in.Title), Model: c.info.ID, Usage: used, Replaces: agent.NameFrom(prompt)})
}
