package loop_test

import (
	"context"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// TestHostileMachineEndsAtTheQuota has a machine fill the journal in every
// possible way: with boot steps, with output in pieces of one byte, and with
// results. The run must end at the quota.
func TestHostileMachineEndsAtTheQuota(t *testing.T) {
	const quota = 4 << 20
	shell := func() []step { // endless calls, one after another
		all := make([]step, 200)
		for i := range all {
			all[i] = use(`Shell {"command":"true"}`)
		}
		return all
	}
	for name, evil := range map[string]func(r *rig){
		"steps of the boot": func(r *rig) {
			r.change = func(c *loop.Config) {
				c.Limits.JournalQuota = quota
				c.Machine = func(ctx context.Context, _ *agent.State, record journal.Record) (remote.Machine, error) {
					for {
						if err := record(ctx, &agent.BootStep{Name: "checkout", State: "running", Detail: strings.Repeat("x", 8<<10)}); err != nil {
							return nil, err
						}
					}
				}
			}
		},
		"output in small pieces": func(r *rig) {
			r.machine.call = func(_ context.Context, _ conversation.ToolCall, onDelta func(remote.Delta)) (tool.Result, error) {
				for n := uint64(1); n <= 100_000; n++ {
					d := remote.Delta{Stdout: "x", Seq: n}
					if n%2 == 0 {
						d = remote.Delta{Stderr: "x", Seq: n}
					}
					onDelta(d)
				}
				return tool.Result{Text: "x"}, nil
			}
		},
		"results": func(r *rig) {
			r.machine.call = func(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, error) {
				return tool.Result{Text: strings.Repeat("x", 256<<10)}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, false)
			r.change = func(c *loop.Config) { c.Limits.JournalQuota = quota }
			r.model.steps = shell()
			evil(r)
			run := r.work(t.Context())
			if run.Status != agent.Failed || run.Failure == nil || run.Failure.Code != "journal_limit" {
				t.Errorf("the run ended as %s, %+v", run.Status, run.Failure)
			}
			size := 0
			for _, e := range r.events() {
				_, data, err := agent.Encode(e.Body)
				if err != nil {
					t.Fatal(err)
				}
				size += len(data)
			}
			if size > 2*quota {
				t.Errorf("the journal has %d bytes, with a quota of %d", size, quota)
			}
		})
	}
}
