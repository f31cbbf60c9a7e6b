package host

import "github.com/spf13/cobra"

func newHooksCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hooks",
		Short: "Test hooks: scripts that run before and after an agent's actions",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHooksTestCommand(a))
	return cmd
}
