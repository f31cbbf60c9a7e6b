package main

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentStopCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "stop AGENT",
		Short:             "Stop what an agent is doing",
		Long:              `Stop the run of an agent. Its machine and its work stay: 'aloft agent follow-up' goes on from there.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			run, err := latestRun(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if run.Ended() {
				return &cli.Problem{
					Exit: cli.Failure, Code: "not_running", Message: "the agent does nothing: its last run ended in " + run.Status,
				}
			}
			if err := c.Cancel(cmd.Context(), args[0], run.ID); err != nil {
				return err
			}
			return a.did("Stopped", args[0])
		},
	}
}
