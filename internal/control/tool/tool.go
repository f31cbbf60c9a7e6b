// Package tool implements the tools that act on the control plane rather than
// in a machine. A call's result is stored in the journal. Any other effect
// happens only once, however often the call runs.
package tool

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Run runs a call of a control plane tool on the state of its agent. A non-nil
// second result is journaled with the first.
func Run(ctx context.Context, c conversation.ToolCall, s *agent.State, scripts Scripts) (tool.Result, agent.Body) {
	switch c.Name {
	case "TodoWrite":
		return todoWrite(c.Args, s.Todos), nil
	case "ReadTodos":
		return readTodos(c.Args, s.Todos), nil
	case "Reflect":
		return reflect(c.Args), nil
	case agent.BugfixTool:
		return reportBugfixes(c.Args), nil
	case agent.GrindPlanTool, agent.GrindTool:
		return startGrind(c.Name, c.Args, s)
	case agent.ReviewTool:
		return reportFindings(c.Args, s)
	case agent.SwitchTool:
		return switchMode(c.Args, s.Mode)
	case setUp:
		return setUpVMEnvironment(ctx, c, s.Agent, scripts)
	}
	return tool.Failed("not available: %s", c.Name), nil
}
