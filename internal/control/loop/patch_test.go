package loop_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/policy/permit"
	"aloft/internal/tool"
)

// TestApplyAgentDiff checks that the machine applies the changes that the
// server has read, unless they include files that need an approval.
func TestApplyAgentDiff(t *testing.T) {
	const refused = "Nothing was applied: the changes include files that need a person's approval: /workspace/r/.cursor/mcp.json. Fetch its branch with Shell, take the other files with git checkout, and change these with Write"
	for _, c := range []struct {
		name, call string
		mode       permit.Mode
		want       string
	}{
		{"Applied", `{"agent_id":"bc-1"}`, permit.Allowlist, "applied r"},
		{"Protected", `{"agent_id":"bc-2"}`, permit.Allowlist, refused},
		{"ProtectedButFree", `{"agent_id":"bc-2"}`, permit.RunEverything, "applied r"},
		{"Unknown", `{"agent_id":"bc-3"}`, permit.RunEverything, "Nothing was applied: you have no such agent"},
		{"Nothing", `{"agent_id":"bc-4"}`, permit.RunEverything, "There is nothing to apply: you have everything that the agent has pushed."},
		{"Schema", `{"id":"bc-1"}`, permit.RunEverything, `Nothing was applied: the arguments do not match the schema: json: unknown field "id"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, true)
			r.reviewed(c.mode, "")
			r.change = func(config *loop.Config) {
				config.Tools.Patches = func(_ context.Context, _ *agent.State, id string) ([]tool.Patch, error) {
					switch id {
					case "bc-1":
						return []tool.Patch{{Folder: "r", Text: []byte("diff"), Files: []string{"a.go"}}}, nil
					case "bc-2":
						return []tool.Patch{{Folder: "r", Text: []byte("diff"), Files: []string{"a.go", ".cursor/mcp.json"}}}, nil
					case "bc-4":
						return nil, nil
					}
					return nil, fault.NotFound("you have no such agent")
				}
			}
			r.machine.call = func(_ context.Context, c conversation.ToolCall, _ func(remote.Delta)) (tool.Result, error) {
				var patches []tool.Patch
				if err := json.Unmarshal(c.Payload, &patches); err != nil || c.Name != "ApplyAgentDiff" {
					return tool.Failed("%s: %v", c.Name, err), nil
				}
				return tool.Result{Text: "applied " + patches[0].Folder}, nil
			}
			r.model.steps = []step{use("ApplyAgentDiff " + c.call), say("done")}
			r.work(t.Context())
			if diff := cmp.Diff([]string{c.want}, results(r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A subagent works in its agent's working tree, and has nothing to apply.
func TestApplyAgentDiffOfASubagent(t *testing.T) {
	r := newRig(t, true)
	r.change = func(c *loop.Config) {
		c.Tools.Patches = func(context.Context, *agent.State, string) ([]tool.Patch, error) {
			t.Error("the server looked for an agent")
			return nil, nil
		}
	}
	r.model.steps = []step{use(`Task {"description":"look","prompt":"look","subagent_type":"explore"}`), say("found"), func(yield func(model.Event, error) bool) {
		began := bodies[*agent.TaskBegan](r)[0]
		use(`ApplyAgentDiff {"agent_id":"` + began.ID + `"}`)(yield)
	}, say("done")}
	r.work(t.Context())
	if got := results(r); len(got) != 2 || got[1] != "Nothing was applied: "+bodies[*agent.TaskBegan](r)[0].ID+" is a subagent, which works in your own tree: its changes are there already" {
		t.Errorf("got %q", got)
	}
}
