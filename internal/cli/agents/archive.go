package agents

import (
	"context"

	"github.com/spf13/cobra"

	"aloft/internal/client"
)

func newAgentArchiveCommand(a *app) *cobra.Command {
	return a.newAgentVerb("archive AGENT", "Archive an agent", "Archived", (*client.Client).Archive)
}

func newAgentUnarchiveCommand(a *app) *cobra.Command {
	return a.newAgentVerb("unarchive AGENT", "Restore an archived agent", "Unarchived", (*client.Client).Unarchive)
}

// newAgentVerb returns a command that performs one action on an agent.
func (a *app) newAgentVerb(use, short, said string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:               use,
		Short:             short,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := do(c, cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.ReportDone(said, args[0])
		},
	}
}
