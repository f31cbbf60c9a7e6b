package loop

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/draft"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/hook"
	"aloft/internal/redact"
)

// Retry limits for model requests, by the kind of error. A refused connection
// will probably be refused again, so such a run fails within two seconds. A
// busy provider is retried for minutes.
const (
	maxAttempts     = 8
	maxUnreachable  = 4
	firstWait       = time.Second
	longestWait     = time.Minute
	unreachableWait = 150 * time.Millisecond
)

// reply asks the model for one reply and journals it completely before any of
// its tool calls runs.
func (t *thread) reply(ctx context.Context) error {
	t.keepFallback()
	if err := t.checkLimits(); err != nil {
		return err
	}
	if err := t.watch(ctx); err != nil {
		return err
	}
	if err := t.noteShortages(ctx, ""); err != nil {
		return err
	}
	if err := t.compactIfFull(ctx); err != nil {
		return err
	}
	if err := t.offer(ctx); err != nil {
		return err
	}
	if err := t.giveRules(ctx); err != nil {
		return err
	}
	err := t.patiently(ctx, &t.answerer, t.ask)
	if model.ReasonOf(err) != model.TooLong {
		return err
	}
	if err := t.compact(ctx); err != nil {
		return err
	}
	if err := t.offer(ctx); err != nil { // the compaction may have removed the message about MCP servers
		return err
	}
	return t.patiently(ctx, &t.answerer, t.ask)
}

// patiently retries a request to c with backoff, as long as the error is
// temporary. If the provider stays busy, patiently replaces c by its fallback.
func (t *thread) patiently(ctx context.Context, c *answerer, ask func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := ask(ctx)
		if c := context.Cause(ctx); err != nil && c != nil {
			return c
		}
		m, ok := errors.AsType[*model.Error](err)
		if !ok {
			return err
		}
		switched, err := t.fallBack(ctx, c, m, attempt)
		if err != nil {
			return err
		}
		if switched {
			attempt = 0
			continue
		}
		wait, again := patience(m, attempt)
		if !again {
			return m
		}
		if err := t.record(ctx, &agent.ModelRetry{Reason: string(m.Reason), Message: m.Message, WaitMS: wait.Milliseconds(), Attempt: attempt, Attempts: attempts(m)}); err != nil {
			return err
		}
		if err := journal.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// patience returns how long to wait after a failed attempt, and whether to
// retry at all.
func patience(m *model.Error, attempt int) (time.Duration, bool) {
	if !m.Temporary() {
		return 0, false
	}
	if attempt >= attempts(m) {
		return 0, false
	}
	if m.Reason == model.Unreachable {
		return unreachableWait << (attempt - 1), true
	}
	wait := min(firstWait<<(attempt-1), longestWait)
	wait += time.Duration(rand.Int64N(int64(wait)/2 + 1)) // jitter, so that agents do not retry in step
	return max(wait, m.RetryAfter), true
}

// attempts returns the maximum number of attempts for an error.
func attempts(m *model.Error) int {
	if m.Reason == model.Unreachable {
		return maxUnreachable
	}
	return maxAttempts
}

// errEmpty is the error for a reply with neither text nor calls.
var errEmpty = &model.Error{Reason: model.Cut, Message: "the model sent an empty reply"}

// ask sends one request to the model.
func (t *thread) ask(ctx context.Context) error {
	s := t.state()
	req := model.Request{System: t.system(s), Messages: s.Messages, Tools: t.tools(s), Cache: &t.cache}
	text, thought := journal.Splice{Seen: s.Shown}, journal.Splice{Seen: s.Thought}
	deltas := journal.NewBatch(ctx, t.record)
	written := t.draft(s)
	defer written.Clear()
	var reply *model.Reply
	var err error
	for e, streamErr := range t.model.Stream(ctx, req) {
		if streamErr != nil {
			err = streamErr
			break
		}
		if show := text.Next(e.Text); show != "" {
			deltas.Add(&agent.TextDelta{Text: show}, len(show))
		}
		if show := thought.Next(e.Thinking); show != "" {
			deltas.Add(&agent.ThinkingDelta{Text: show}, len(show))
		}
		written.Add(e.Args)
		if e.Done != nil {
			reply = e.Done
		}
	}
	written.Clear() // before the journal has the calls
	rest, writeErr := deltas.Close()
	if writeErr != nil {
		return writeErr
	}
	if err == nil && reply == nil {
		err = &model.Error{Reason: model.Cut, Message: "the stream ended before the reply did"}
	}
	var whole []agent.Body
	if err == nil {
		whole, err = t.checkReply(reply)
	}
	if err != nil {
		return cmp.Or(t.record(ctx, rest...), err)
	}
	lost := t.acks.refused()
	var decided []agent.Body
	var head int64 // number of the event whose state the calls were decided by
	if lost == nil {
		decided, head = t.foresee(ctx, reply.Message)
	}
	last, cancel := journal.Outliving(ctx) // the reply is already paid for
	defer cancel()
	if err := t.rec.RecordDecided(last, head, t.inThread(append(rest, whole...)), t.inThread(decided)); err != nil {
		return err
	}
	if lost != nil {
		return lost
	}
	t.replyHooks(ctx, reply.Message)
	return nil
}

// goOn is the message that asks a model to continue a reply that reached the
// length limit.
const goOn = "Your reply was cut off because it was too long. Continue where it ended."

// modelRefused is the error code for a reply that declines to answer.
const modelRefused = "model_refused"

// checkReply returns the events of a complete reply, in a form that every provider
// accepts as input.
func (t *thread) checkReply(r *model.Reply) ([]agent.Body, error) {
	s := t.state()
	if r.Stop == model.StopRefusal {
		return nil, fault.Denied("the model declined to answer: %s", r.Message.PlainText()).Named(modelRefused).
			Hint("rephrase the task, or use another model")
	}
	if len(r.Message.Blocks) == 0 {
		if r.Stop != model.StopEnd || s.Turns == 0 {
			return nil, errEmpty
		}
		// After a tool's result, a model may end its turn without any text.
		r.Message.Blocks = []conversation.Block{{Text: "Done."}}
	}
	draft.Adopt(r.Message.Blocks, t.prefix(s))
	bodies := []agent.Body{&agent.TurnReplied{
		Message: r.Message, Stop: string(r.Stop), Usage: t.info.Price.Of(r.Usage), Model: t.info.ID,
	}}
	cutBefore := len(s.Messages) > 0 && strings.HasSuffix(s.Messages[len(s.Messages)-1].PlainText(), goOn)
	if r.Stop == model.StopLength && len(r.Message.Calls()) == 0 && !cutBefore {
		bodies = append(bodies, &agent.Notice{Text: goOn, Code: agent.CodeCut})
	}
	return bodies, nil
}

// replyHooks passes the model's text and thoughts to the hooks.
func (t *thread) replyHooks(ctx context.Context, m conversation.Message) {
	var thought strings.Builder
	for _, b := range m.Blocks {
		if b.Thinking != nil {
			thought.WriteString(b.Thinking.Text)
		}
	}
	if thought.Len() > 0 {
		t.tell(ctx, hook.AfterAgentThought, map[string]any{"text": thought.String()})
	}
	if text := m.PlainText(); text != "" {
		t.tell(ctx, hook.AfterAgentResponse, map[string]any{"text": text})
	}
}

// draft returns a draft that shows the calls of a reply while the model writes
// them.
func (t *thread) draft(s *agent.State) *draft.Draft {
	return draft.New(t.Live, draft.Reply{AgentID: s.Agent.ID, RunID: s.Run.ID, Task: t.task, Prefix: t.prefix(s)}, func() *redact.Redactor {
		if t.Secrets == nil {
			return nil
		}
		return t.Secrets(s)
	})
}
