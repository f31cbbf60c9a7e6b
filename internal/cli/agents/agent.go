package agents

import (
	"context"

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
		newAgentRenameCommand(a),
		newAgentDiffCommand(a),
		newAgentPRCommand(a),
		newAgentTerminalsCommand(a),
		newAgentPortsCommand(a),
		newAgentWebhookCommand(a),
		newAgentConnectionsCommand(a),
		newAgentArtifactsCommand(a),
		newAgentArchiveCommand(a),
		newAgentUnarchiveCommand(a),
		newAgentDeleteCommand(a),
	)
	return cmd
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
