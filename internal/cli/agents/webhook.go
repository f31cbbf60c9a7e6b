package agents

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentWebhookCommand(a *app) *cobra.Command {
	cmd := command.List[client.Delivery]{
		Use: "webhook AGENT", Short: "List the deliveries of an agent's webhook, newest first",
		Long: `List the deliveries of an agent's webhook, sent and pending, newest first. Failed
deliveries are retried for a day. Set a webhook with 'aloft run --webhook'.`,
		Example: `  aloft agent webhook bc-…
  aloft agent webhook replay bc-… DELIVERY`,
		Args: cobra.ExactArgs(1), Complete: a.CompleteAgents,
		Of: func(ctx context.Context, c *client.Client, args []string) ([]client.Delivery, error) {
			return c.Deliveries(ctx, args[0])
		},
		Head: []string{"ID", "EVENT", "STATE", "TRIES", "CREATED", "LAST"}, None: "No deliveries yet.",
		Row: func(d client.Delivery) []string {
			last := d.LastError
			if last == "" && d.LastStatusCode != 0 {
				last = strconv.Itoa(d.LastStatusCode)
			}
			return []string{cli.Line(d.ID, 80), cli.Line(d.Event, 30), cli.Line(d.State, 20), strconv.Itoa(d.Attempts), cli.Ago(time.Since(d.CreatedAt)), cli.Line(last, 60)}
		},
	}.Command(a.App)
	cmd.AddCommand(&cobra.Command{
		Use: "replay AGENT DELIVERY", Short: "Send a webhook delivery again, with the same id", Args: cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.ReplayDelivery(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return a.ReportDone("Queued for redelivery:", args[1])
		},
	})
	return cmd
}

func newAgentTerminalsCommand(a *app) *cobra.Command {
	return command.List[client.Terminal]{
		Use: "terminals AGENT", Short: "List an agent's shared terminals",
		Long: `List the terminals that an agent shares with people; open one with 'aloft agent
attach'. A sleeping machine is woken.`,
		Args: cobra.ExactArgs(1), Complete: a.CompleteAgents,
		Of: func(ctx context.Context, c *client.Client, args []string) ([]client.Terminal, error) {
			return c.Terminals(ctx, args[0])
		},
		Head: []string{"NAME", "RUNS", "IN", "SIZE", "WATCHED BY"}, None: "No terminals yet. Create one with `aloft agent attach`.",
		Row: func(t client.Terminal) []string {
			return []string{
				cli.Line(t.Name, 40), cli.Line(t.Command, 40), cli.Line(t.WorkingDirectory, 60),
				strconv.Itoa(t.Columns) + "×" + strconv.Itoa(t.Rows), strconv.Itoa(t.Attached),
			}
		},
	}.Command(a.App)
}
