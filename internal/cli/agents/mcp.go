package agents

import (
	"fmt"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// showMCPServers prints an agent's servers, and why some cannot be used.
func (a *app) showMCPServers(all []client.AgentMCPServer) {
	if len(all) == 0 {
		return
	}
	a.Out.Line("")
	words := map[string]string{"needs_auth": "sign-in required", "left_out": "left out", "unknown": "not connected yet"}
	rows := [][]string{{"MCP SERVER", "FROM", "STATE", "TOOLS"}}
	for _, s := range all {
		state := s.State
		if word, ok := words[state]; ok {
			state = word
		}
		if s.Why != "" {
			state += ": " + s.Why
		}
		tools := ""
		if n := len(s.Tools); n > 0 {
			tools = fmt.Sprint(n)
		}
		rows = append(rows, []string{cli.Line(s.Name, 64), cli.Line(s.Source, 20), cli.Line(state, 120), tools})
	}
	a.Out.Table(rows)
}
