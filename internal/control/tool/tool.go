// Package tool holds the tools that act on the control plane and not in a
// machine. They have no effect but their result, which the journal keeps.
package tool

import (
	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Run works a call of such a tool on the state of its agent.
func Run(c conversation.ToolCall, s *agent.State) tool.Result {
	if c.Name == "TodoWrite" {
		return todoWrite(c.Args, s.Todos)
	}
	return tool.Failed("not available: %s", c.Name)
}
