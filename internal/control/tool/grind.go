package tool

import (
	"encoding/json"
	"fmt"

	"aloft/internal/agent"
	"aloft/internal/tool"
)

// grindPlan is the instruction to plan work in rounds.
const grindPlan = "Plan the work, and change nothing yet. Find out which tasks there are, and do one of them in your mind to see what it takes. " +
	"Then write the list with TodoWrite: one item for each task, small enough for a few calls, with all that is needed to do it without remembering the others. " +
	"When the list is complete, call " + agent.GrindTool + "."

// startGrind starts the planning of work in rounds. If there is a plan, it
// starts the rounds.
func startGrind(name string, args json.RawMessage, s *agent.State) (tool.Result, agent.Body) {
	var in struct {
		Explanation string `json:"explanation"`
	}
	if r := decode(args, &in); r != nil {
		return *r, nil
	}
	open := len(agent.OpenTodos(s.Todos))
	switch {
	case name == agent.GrindPlanTool:
		return tool.Result{Text: grindPlan, Output: json.RawMessage(`{"success":{}}`)}, nil
	case s.Mode == agent.ModePlan:
		return tool.Failed("plan mode allows no changes: call CreatePlan first"), nil
	case open == 0:
		return tool.Failed("your todo list has no open items: write the tasks with TodoWrite first"), nil
	}
	r := tool.Result{
		Text:   fmt.Sprintf("Open items: %d. Work on them one after another. Mark each as completed when it is done and verified, or as cancelled if it cannot be done, and say why in your final message.", open),
		Output: fmt.Appendf(nil, `{"success":{"open":%d}}`, open),
	}
	if s.Grinding.On {
		return r, nil
	}
	return r, &agent.GrindBegan{Open: open}
}
