package loop_test

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/live"
	"aloft/internal/control/loop"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/redact"
)

// Clients see a call's arguments while the model writes them, under the id that
// the journal will use and with secrets redacted. They stop seeing them once
// the arguments are complete.
func TestWatchersSeeWhatIsWritten(t *testing.T) {
	const secret = "hunter2-is-the-password"
	r := newRig(t, false)
	var board live.Board
	watcher := board.Watch(r.id)
	defer watcher.Close()
	r.change = func(c *loop.Config) {
		c.Live = &board
		c.Secrets = func(*agent.State) *redact.Redactor { return redact.New(map[string]string{"TOKEN": secret}) }
	}
	args := `{"command":"echo ` + secret + ` now"}`
	var seen []string
	var before, cut []live.Writing
	write := func(stop *model.Error) step {
		return func(yield func(model.Event, error) bool) {
			yield(model.Event{Text: "Let me see."}, nil)
			for n := 0; n < len(args); n += 10 { // small pieces split the secret
				yield(model.Event{Args: &model.ArgsDelta{CallID: "toolu_1", Name: "Shell", JSON: args[n:min(n+10, len(args))], Block: 1}}, nil)
				before = watcher.Read()
				for _, w := range before {
					seen = append(seen, w.Args)
				}
			}
			if stop != nil {
				yield(model.Event{}, stop)
				return
			}
			yield(model.Event{Done: &model.Reply{Stop: model.StopCalls, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
				{Text: "Let me see."}, {Call: &conversation.ToolCall{ID: "toolu_1", Name: "Shell", Args: json.RawMessage(args)}}}}}}, nil)
		}
	}
	first := write(&model.Error{Reason: model.Unreachable, Message: "gone"})
	r.model.steps = []step{
		func(yield func(model.Event, error) bool) { first(yield); cut = before },
		write(nil), say("done"),
	}
	if run := r.work(t.Context()); run.Status != agent.Finished {
		t.Fatalf("got %+v", run)
	}
	last := before[0]
	if want := `{"command":"echo ` + redact.Marker + ` now"}`; len(before) != 1 || last.Args != want || last.Name != "Shell" || last.RunID != r.run {
		t.Errorf("a watcher saw %+v", before)
	}
	if done := bodies[*agent.CallDone](r); len(done) != 1 || done[0].CallID != last.CallID {
		t.Errorf("the call was shown as %s, and journaled as %+v", last.CallID, done)
	}
	if len(cut) != 1 || cut[0].Serial == last.Serial {
		t.Errorf("the reply that was cut: %+v", cut)
	}
	for _, args := range seen {
		for n := redact.MinLength; n <= len(secret); n++ {
			if strings.Contains(args, secret[:n]) {
				t.Fatalf("a watcher saw %q", args)
			}
		}
	}
	if left := watcher.Read(); len(left) != 0 {
		t.Errorf("left after the reply: %+v", left)
	}
}
