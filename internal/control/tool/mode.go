package tool

import (
	"bytes"
	"cmp"
	"encoding/json"

	"aloft/internal/agent"
	"aloft/internal/tool"
)

// SwitchArgs are the arguments of a call of [agent.SwitchTool].
type SwitchArgs struct {
	Target      string `json:"target_mode"`
	Explanation string `json:"explanation"`
}

// ReadSwitch parses the arguments. If they are invalid, refused is the result
// of the call.
func ReadSwitch(raw json.RawMessage) (in SwitchArgs, refused *tool.Result) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		r := tool.Failed("the arguments do not match the schema: %v", err)
		return in, &r
	}
	if in.Target != agent.ModePlan && in.Target != agent.ModeAgent {
		r := tool.Failed("target_mode is %q; must be plan or agent", in.Target)
		return in, &r
	}
	return in, nil
}

// switchMode runs a call to switch the mode. If a person had to allow the call,
// that has happened.
func switchMode(raw json.RawMessage, now string) (tool.Result, agent.Body) {
	in, refused := ReadSwitch(raw)
	if refused != nil {
		return *refused, nil
	}
	now = cmp.Or(now, agent.ModeAgent)
	output, err := json.Marshal(map[string]any{"success": map[string]string{"fromMode": now, "toMode": in.Target}})
	if err != nil {
		return tool.Failed("%v", err), nil // marshaling a string cannot fail
	}
	r := tool.Result{Output: output, Text: "You are in agent mode: carry the task out."}
	if in.Target == agent.ModePlan {
		r.Text = agent.PlanWords
	}
	if in.Target == now {
		return r, nil
	}
	return r, &agent.ModeSwitched{Mode: in.Target}
}
