package main

import (
	"github.com/spf13/cobra"

	"aloft/internal/client"
)

func newAgentPauseCommand(a *app) *cobra.Command {
	cmd := a.newAgentVerb("pause AGENT", "Let an agent wait while you work in its machine", "Paused", (*client.Client).Pause)
	cmd.Long = `Let an agent wait before its next request to the model or tool call; what is
under way is finished first. It waits until 'aloft agent resume', also over
restarts of the server.`
	return cmd
}

func newAgentResumeCommand(a *app) *cobra.Command {
	return a.newAgentVerb("resume AGENT", "Let a paused agent go on", "Resumed", (*client.Client).Resume)
}
