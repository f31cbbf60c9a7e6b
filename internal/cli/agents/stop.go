package agents

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentStopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "stop AGENT",
		Short:             "Stop an agent's current run",
		Long:              `Stop an agent's current run. Its machine and its work are kept: continue with 'aloft agent follow-up'.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			run, err := latestRun(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if run.Ended() {
				return &cli.Problem{
					Exit: cli.Failure, Code: "not_running", Message: "the agent is not running: its last run ended as " + run.Status,
				}
			}
			if err := c.Cancel(cmd.Context(), args[0], run.ID); err != nil {
				return err
			}
			return a.ReportDone("Stopped", args[0])
		},
	}
}
