package agents

import (
	"github.com/spf13/cobra"

	"aloft/internal/client"
)

func newAgentPauseCommand(a *app) *cobra.Command {
	cmd := a.newAgentVerb("pause AGENT", "Pause an agent, for example while you work in its machine", "Paused", (*client.Client).Pause)
	cmd.Long = `Pause an agent before its next model request or tool call. The current one
finishes first. The agent stays paused until 'aloft agent resume', even if the
server restarts.`
	return cmd
}

func newAgentResumeCommand(a *app) *cobra.Command {
	return a.newAgentVerb("resume AGENT", "Resume a paused agent", "Resumed", (*client.Client).Resume)
}
