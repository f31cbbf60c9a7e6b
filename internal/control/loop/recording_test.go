package loop_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A recording ends with the run in which it began, however the run ends. If a
// run has recorded nothing, the machine gets no request to end a recording.
func TestARecordingEndsWithItsRun(t *testing.T) {
	const begin = `RecordScreen {"mode":"START_RECORDING"}`
	for name, c := range map[string]struct {
		steps  []step
		ends   bool
		status agent.Status
	}{
		"Finished":    {[]step{use(begin), say("done")}, true, agent.Finished},
		"BySubagent":  {[]step{use(`Task {"description":"d","prompt":"p"}`), use(begin), say("recorded"), say("done")}, true, agent.Finished},
		"Failed":      {[]step{use(begin)}, true, agent.Failed},
		"WithoutOne":  {[]step{use(`Read {"path":"a"}`), say("done")}, false, agent.Finished},
		"FailedToAsk": {nil, false, agent.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false)
			r.model.steps = c.steps
			var ended []string
			r.machine.call = func(_ context.Context, call conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
				if strings.Contains(string(call.Args), "UNSPECIFIED") {
					ended = append(ended, call.ID)
				}
				return tool.Result{Text: "ok", Output: json.RawMessage(`{"success":{}}`)}, nil
			}
			if run := r.work(t.Context()); run.Status != c.status {
				t.Errorf("the run is %s", run.Status)
			}
			if want := []string{"end_" + r.run}; c.ends != slices.Equal(ended, want) || c.ends != slices.Contains(r.machine.acked, want[0]) {
				t.Errorf("ended by %q, acknowledged %q", ended, r.machine.acked)
			}
		})
	}
}

// Tools that cannot work in the machine are not offered.
func TestWhatTheMachineLacksIsNotOffered(t *testing.T) {
	for _, lacking := range [][]string{nil, {"RecordScreen"}} {
		r := newRig(t, false)
		r.machine.lacking = lacking
		r.model.steps = []step{use(`Task {"description":"d","prompt":"p"}`), say("looked"), say("done")}
		r.work(t.Context())
		for i, req := range r.model.requests {
			if got := toolsOf(req); slices.Contains(got, "RecordScreen") == (lacking != nil) || !slices.Contains(got, "Read") {
				t.Errorf("without %q, request %d has %q", lacking, i, got)
			}
		}
	}
}

// The video review subagent is offered only if a model accepts images, and
// works then.
func TestVideoReview(t *testing.T) {
	for _, sees := range []bool{true, false} {
		r := newRig(t, false)
		r.info.Images = sees
		r.model.steps = []step{use(`Task {"description":"d","prompt":"what is on it?","subagent_type":"videoReview","attachments":["/opt/cursor/artifacts/a.mp4"]}`), say("a page"), say("done")}
		r.work(t.Context())
		task := slices.IndexFunc(r.model.requests[0].Tools, func(s tool.Spec) bool { return s.Name == "Task" })
		if told := r.model.requests[0].Tools[task]; strings.Contains(told.Description, "videoReview") != sees || strings.Contains(string(told.Schema), "videoReview") != sees {
			t.Errorf("sees %v: told %s", sees, told.Description)
		}
		done := bodies[*agent.CallDone](r)[0]
		if done.Error == sees || !sees && !strings.Contains(done.Text, "needs a model that accepts images") {
			t.Errorf("sees %v: %+v", sees, done)
		}
		if !sees {
			continue
		}
		sub := r.model.requests[1]
		if got := toolsOf(sub); !slices.Contains(got, "Read") || slices.Contains(got, "Shell") || !strings.Contains(sub.System, "You look at videos") || !strings.Contains(sub.Messages[0].PlainText(), "artifacts/a.mp4") {
			t.Errorf("%q: %s", got, sub.System)
		}
	}
}
