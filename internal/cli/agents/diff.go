package agents

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "diff AGENT",
		Short:             "Show what an agent has changed",
		Example:           `  aloft agent diff bc-… | git apply`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			diff, err := c.Diff(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case a.Out.JSON():
				return a.Out.Value(diff)
			case diff.Diff == "":
				a.Out.Note("No changes.")
			case cli.IsTerminal(a.Stdout):
				a.PrintColorDiff(diff.Diff)
			default:
				a.Out.Text(diff.Diff) // a patch, byte for byte, for git apply
			}
			if diff.Truncated {
				a.Out.Note("The diff is truncated: it is too long to show in full. Fetch the branch to see all of it.")
			}
			return nil
		},
	}
}
