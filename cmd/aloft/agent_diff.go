package main

import (
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentDiffCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "diff AGENT",
		Short:             "Show what an agent has changed",
		Example:           `  aloft agent diff bc-… | git apply`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			diff, err := c.Diff(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			switch {
			case a.out.JSON():
				return a.out.Value(diff)
			case diff.Diff == "":
				a.out.Note("No changes.")
			case cli.IsTerminal(a.stdout):
				a.colorDiff(diff.Diff)
			default:
				a.out.Text(diff.Diff) // a patch, byte for byte, for git apply
			}
			if diff.Truncated {
				a.out.Note("The diff is truncated: it is too long to show in full. Fetch the branch to see all of it.")
			}
			return nil
		},
	}
}

// colorDiff prints a diff in color.
func (a *app) colorDiff(diff string) {
	for line := range strings.Lines(cli.Clean(diff)) {
		a.out.Line("%s", a.out.DiffLine(strings.TrimSuffix(line, "\n")))
	}
}
