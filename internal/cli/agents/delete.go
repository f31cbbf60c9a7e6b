package agents

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentDeleteCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "delete AGENT",
		Short: "Delete an agent permanently",
		Long: `Permanently delete an agent with its machine, conversation and journal. Branches
that it pushed are kept. On a terminal the command asks for confirmation.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if !yes && cli.IsTerminal(a.Stdin) {
				agent, err := c.Agent(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				fmt.Fprintf(a.Stderr, "Permanently delete %s (%s)? [y/N] ", cli.Line(agent.ID, 80), cli.Line(agent.Name, 60))
				answer, _ := bufio.NewReader(a.Stdin).ReadString('\n') // no answer means no
				if s := strings.ToLower(strings.TrimSpace(answer)); s != "y" && s != "yes" {
					return &cli.Problem{Exit: cli.Failure, Code: "not_confirmed", Message: "nothing was deleted"}
				}
			}
			if err := c.DeleteAgent(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.ReportDone("Deleted", args[0])
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}
