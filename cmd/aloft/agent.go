package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Manage agents",
		Long: `Manage agents.

AGENT is an agent's id, the beginning of one, with or without "bc-", or an agent's
name.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newAgentListCommand(a),
		newAgentShowCommand(a),
		newAgentOpenCommand(a),
		newAgentLogsCommand(a),
		newAgentFollowUpCommand(a),
		newAgentRetryCommand(a),
		newAgentQueueCommand(a),
		newAgentForkCommand(a),
		newAgentCompareCommand(a),
		newAgentStopCommand(a),
		newAgentPauseCommand(a),
		newAgentResumeCommand(a),
		newAgentSSHCommand(a),
		newAgentCpCommand(a),
		newAgentDiffCommand(a),
		newAgentPRCommand(a),
		newAgentTerminalsCommand(a),
		newAgentWebhookCommand(a),
		newAgentConnectionsCommand(a),
		newAgentArtifactsCommand(a),
		newAgentForwardCommand(a),
		newAgentPreviewCommand(a),
		newAgentDesktopCommand(a),
		newAgentAttachCommand(a),
		newAgentExecCommand(a),
		newAgentArchiveCommand(a),
		newAgentUnarchiveCommand(a),
		newAgentDeleteCommand(a),
	)
	return cmd
}

// completionTime is how long shell completion waits for the server.
const completionTime = 2 * time.Second

// completeAgents completes agent IDs with those of the newest agents.
func (a *app) completeAgents(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	c, err := a.connect()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	page, err := c.Agents(ctx, 50, "", true)
	if err != nil {
		return nil, none
	}
	var names []cobra.Completion
	for _, agent := range page.Items {
		names = append(names, cobra.CompletionWithDesc(cli.Line(agent.ID, 80), cli.Line(agent.Name, 60)))
	}
	return names, none
}

// latestRun returns the agent's latest run.
func latestRun(ctx context.Context, c *client.Client, agentID string) (client.Run, error) {
	agent, err := c.Agent(ctx, agentID)
	if err != nil {
		return client.Run{}, err
	}
	if agent.LatestRunID == "" {
		return client.Run{}, &cli.Problem{Exit: cli.NotFound, Code: "not_found", Message: "the agent has no runs"}
	}
	return c.Run(ctx, agentID, agent.LatestRunID)
}

// did reports what was done to an agent.
func (a *app) did(what, agentID string) error {
	if a.out.JSON() {
		return a.out.Value(map[string]string{"id": agentID})
	}
	a.out.Line("%s %s.", what, cli.Line(agentID, 80))
	return nil
}
