package loop_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A run is cancelled while some calls of one reply have finished, others run, and one
// waits for a free slot. The model must get the true outcome of each call, in the
// order of the calls.
func TestParallelCallsWhenTheRunIsCancelled(t *testing.T) {
	r := newRig(t, false)
	const finished, running = 1, 8 // this many calls run in parallel
	var calls []string
	for n := range finished + running + 1 {
		calls = append(calls, fmt.Sprintf(`Read {"path":"/workspace/%d"}`, n))
	}
	r.model.steps = []step{use(calls...)}
	ctx, cancel := context.WithCancelCause(t.Context())
	var blocked atomic.Int32
	r.machine.call = func(ctx context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		var args struct{ Path string }
		if err := json.Unmarshal(c.Args, &args); err != nil {
			return tool.Result{}, err
		}
		if args.Path == "/workspace/0" {
			return tool.Result{Text: "the file"}, nil
		}
		if blocked.Add(1) == running { // the last call gets the slot of the finished call
			cancel(loop.ErrCancel)
		}
		<-ctx.Done()
		return tool.Failed("aborted"), nil
	}
	if run := r.runToEnd(ctx); run.Status != agent.Cancelled {
		t.Fatalf("%s, %+v", run.Status, run.Failure)
	}
	var told []string
	state := agent.Fold(r.id, r.events())
	for _, m := range state.Messages {
		for _, b := range m.Blocks {
			if b.Result != nil {
				told = append(told, b.Result.Text)
			}
		}
	}
	if len(told) != len(calls) {
		t.Fatalf("%d results of %d calls: %q", len(told), len(calls), told)
	}
	for n, text := range told {
		want := "aborted"
		switch {
		case n < finished:
			want = "the file"
		case n >= finished+running:
			want = "never started"
		}
		if !strings.Contains(text, want) {
			t.Errorf("call %d: the model is told %q, want %q", n, text, want)
		}
	}
	if known := r.machine.Known(); len(known) > 0 {
		t.Errorf("the machine keeps %q", known)
	}
}
