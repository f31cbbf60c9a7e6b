package agents

import (
	"github.com/spf13/cobra"
)

func newAgentRenameCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rename AGENT NAME",
		Short: "Rename an agent",
		Long: `Give an agent another name of at most 100 characters. Its branch and pull
requests keep theirs.`,
		Example:           `  aloft agent rename 62b7 "Trim slugs"`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.Rename(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return a.ReportDone("Renamed", args[0])
		},
	}
}
