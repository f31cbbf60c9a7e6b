package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

// connectionsPage is how many connections to request per page.
const connectionsPage = 1000

func newAgentConnectionsCommand(a *app) *cobra.Command {
	var limit int
	var refused bool
	cmd := &cobra.Command{
		Use:   "connections AGENT",
		Short: "List an agent's network connections, allowed and refused",
		Long: `List an agent's network connections, allowed and refused.

Closed connections come first, then open ones. The list is kept after the machine
is gone, until the agent is deleted.`,
		Example: `  aloft agent connections bc-…
  aloft agent connections bc-… --refused
  aloft agent connections bc-… --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return command.Misuse(cmd, errors.New("--limit must be at least 1"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			all, err := connections(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if refused {
				allowed := func(c client.Connection) bool { return c.Allowed }
				all.Open, all.Ended = slices.DeleteFunc(all.Open, allowed), slices.DeleteFunc(all.Ended, allowed)
			}
			older := max(0, len(all.Ended)-limit)
			all.Ended = all.Ended[older:]
			if a.Out.JSON() {
				return a.Out.Value(all)
			}
			a.showConnections(all, older)
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number of closed connections to list")
	cmd.Flags().BoolVar(&refused, "refused", false, "list only refused connections")
	return cmd
}

// connections fetches every page of an agent's connections.
func connections(ctx context.Context, c *client.Client, agentID string) (client.Connections, error) {
	all := client.Connections{Open: []client.Connection{}, Ended: []client.Connection{}}
	for after := uint64(0); ; after = all.Ended[len(all.Ended)-1].Seq {
		page, err := c.Connections(ctx, agentID, after, connectionsPage)
		if err != nil {
			return all, err
		}
		all.Open = page.Open
		all.Ended = append(all.Ended, page.Ended...)
		if len(page.Ended) < connectionsPage {
			return all, nil
		}
	}
}

func (a *app) showConnections(all client.Connections, older int) {
	if len(all.Open)+len(all.Ended) == 0 {
		a.Out.Note("No connections yet.")
		return
	}
	rows := [][]string{{"STARTED", "NET", "NAME", "ADDRESS", "SENT", "RECEIVED", "TOOK", "RESULT"}}
	for _, c := range slices.Concat(all.Ended, all.Open) {
		came := "ended"
		switch {
		case !c.Allowed:
			came = "refused: " + c.Rule
		case c.Error != "":
			came = c.Error
		case c.Seq == 0:
			came = "open"
		}
		rows = append(rows, []string{
			c.StartedAt.Local().Format(time.DateTime), cli.Line(c.Network, 8), cli.Line(c.Domain, 48), cli.Line(c.Address, 56),
			byteCount(c.Sent), byteCount(c.Received), cli.Took(time.Duration(c.DurationMS) * time.Millisecond), cli.Line(came, 80),
		})
	}
	a.Out.Table(rows)
	if older > 0 {
		a.Out.Note("%d older connections not shown; raise --limit to see them.", older)
	}
}

// byteCount formats a number of bytes for people.
func byteCount(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n)/step, "kMGTPE"
	for ; value >= step; value /= step {
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %cB", value, units[0])
}
