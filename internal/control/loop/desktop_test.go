package loop_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/subagent"
	"aloft/internal/tool"
)

// look is a call of the desktop tool that takes a screenshot.
const look = `ComputerUse {"actions":[{"screenshot":{}}]}`

// In a machine with a desktop, the desktop subagent has only the desktop tool,
// sees its images, and can be resumed. No other conversation has the tool.
func TestComputerUse(t *testing.T) {
	r := newRig(t, false)
	r.info.Images = true
	picture := []byte("RIFF of a screenshot")
	r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
		return tool.Result{Text: "looked with " + c.Name, Images: []conversation.Image{{MediaType: "image/webp", Data: picture}}}, nil
	}
	r.model.steps = []step{
		use(look),
		use(`Task {"prompt":"open the settings","subagent_type":"computerUse"}`), use(look, `Shell {"command":"ls"}`), say("they are open"),
		use(`Task {"prompt":"close them","subagent_type":"computerUse"}`), say("closed"),
		use(`Task {"prompt":"p"}`), use(look), say("no"),
		say("done"),
	}
	r.work(t.Context())
	names := func(req model.Request) (all []string) {
		for _, s := range req.Tools {
			all = append(all, s.Name)
		}
		return all
	}
	main, sub := r.model.requests[0], r.model.requests[2]
	task := main.Tools[slices.Index(names(main), "Task")]
	if slices.Contains(names(main), "ComputerUse") || !strings.Contains(task.Description, "computerUse: "+subagent.OnDesktop.Description) || !strings.Contains(string(task.Schema), `"computerUse"`) {
		t.Errorf("the agent has %q, and is told of Task %s", names(main), task.Description)
	}
	if got := names(sub); !slices.Equal(got, []string{"ComputerUse"}) || !strings.Contains(sub.System, "You use the desktop") {
		t.Errorf("the subagent has %q, and is told %s", got, sub.System)
	}
	seen := r.model.requests[3].Messages[2].Blocks[0].Result
	if seen.Text != "looked with ComputerUse" || len(seen.Images) != 1 || string(seen.Images[0].Data) != string(picture) {
		t.Errorf("the subagent is shown %+v", seen)
	}
	began := bodies[*agent.TaskBegan](r)
	if len(began) != 3 || began[1].ID != began[0].ID || began[2].ID == began[0].ID {
		t.Errorf("subagents %+v", began)
	}
	if last := r.model.requests[5]; len(last.Messages) != 5 || last.Messages[4].PlainText() != "close them" {
		t.Errorf("the second call goes on with %d messages", len(last.Messages))
	}
	var told []string
	for _, d := range slices.Concat(bodies[*agent.CallDone](r)[:1], within[*agent.CallDone](r)) {
		told = append(told, d.Text)
	}
	want := []string{
		"ComputerUse is only for the subagent computerUse: use Task to describe what to do on the desktop",
		"looked with ComputerUse", "Shell is not available: this subagent can only use the desktop", "ComputerUse is not available to subagents",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
}

// TestComputerUseIsRefused checks that the desktop subagent is refused if it
// cannot work.
func TestComputerUseIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		images bool
		args   string
		want   string
	}{
		"ReadOnly": {true, `{"prompt":"p","subagent_type":"computerUse","readonly":true}`, "cannot be read-only: call it without readonly"},
		"Blind":    {false, `{"prompt":"p","subagent_type":"computerUse"}`, `needs a model that accepts images, which "m" does not`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, false)
			r.info.Images = c.images
			r.model.steps = []step{use("Task " + c.args), say("done")}
			r.work(t.Context())
			done := bodies[*agent.CallDone](r)
			if len(done) != 1 || !done[0].Error || !strings.Contains(done[0].Text, c.want) || len(bodies[*agent.TaskBegan](r)) > 0 {
				t.Errorf("got %+v", done)
			}
		})
	}
}
