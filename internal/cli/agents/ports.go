package agents

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentPortsCommand(a *app) *cobra.Command {
	return command.List[client.ListeningPort]{
		Use: "ports AGENT", Short: "List the ports on which programs in an agent's machine listen",
		Long: `List the TCP ports on which programs in an agent's machine listen. Open one in a
browser with 'aloft agent preview', or forward it with 'aloft agent forward'. A
sleeping machine is woken.`,
		Args: cobra.ExactArgs(1), Complete: a.CompleteAgents,
		Of: func(ctx context.Context, c *client.Client, args []string) ([]client.ListeningPort, error) {
			return c.Ports(ctx, args[0])
		},
		Head: []string{"PORT", "PROGRAM"}, None: "No program listens on a port.",
		Row: func(p client.ListeningPort) []string {
			return []string{strconv.Itoa(p.Port), cli.Line(p.Program, 40)}
		},
	}.Command(a.App)
}
