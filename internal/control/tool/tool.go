// Package tool holds the tools that act on the control plane and not in a
// machine. What has an effect but its result, which the journal keeps, has it
// once, however often the call is worked.
package tool

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Run works a call of such a tool on the state of its agent. What is to be
// journaled beside the result is not nil.
func Run(ctx context.Context, c conversation.ToolCall, s *agent.State, scripts Scripts) (tool.Result, agent.Body) {
	switch c.Name {
	case "TodoWrite":
		return todoWrite(c.Args, s.Todos), nil
	case agent.SwitchTool:
		return switchMode(c.Args, s.Mode)
	case setUp:
		return setUpVMEnvironment(ctx, c, s.Agent, scripts)
	}
	return tool.Failed("not available: %s", c.Name), nil
}

// Reviewed reports whether calls of a tool are judged as those to a machine are:
// what they do lasts beyond the conversation.
func Reviewed(name string) bool {
	return name == setUp || name == agent.TaskTool || name == agent.SwitchTool || name == "PrManagement"
}
