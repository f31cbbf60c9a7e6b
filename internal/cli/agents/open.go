package agents

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
)

func newAgentOpenCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "open AGENT",
		Short:             "Open an agent's page of the dashboard in a browser",
		Long:              "Open an agent's page of the dashboard in a browser, and print its address.",
		Example:           "  aloft agent open \"Fix the parser\"",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			agent, err := c.Agent(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]string{"url": agent.URL})
			}
			a.Out.Line("%s", cli.Line(agent.URL, 0))
			return command.OpenBrowser(agent.URL)
		},
	}
}
