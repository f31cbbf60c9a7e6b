package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentWebhookCommand(a *app) *cobra.Command {
	cmd := list[client.Delivery]{
		use: "webhook AGENT", short: "List the deliveries of an agent's webhook, newest first",
		long: `List the deliveries of an agent's webhook, sent and pending, newest first. Failed
deliveries are retried for a day. Set a webhook with 'aloft run --webhook'.`,
		example: `  aloft agent webhook bc-…
  aloft agent webhook replay bc-… DELIVERY`,
		args: cobra.ExactArgs(1), complete: a.completeAgents,
		of: func(ctx context.Context, c *client.Client, args []string) ([]client.Delivery, error) {
			return c.Deliveries(ctx, args[0])
		},
		head: []string{"ID", "EVENT", "STATE", "TRIES", "CREATED", "LAST"}, none: "No deliveries yet.",
		row: func(d client.Delivery) []string {
			last := d.LastError
			if last == "" && d.LastStatusCode != 0 {
				last = strconv.Itoa(d.LastStatusCode)
			}
			return []string{cli.Line(d.ID, 80), cli.Line(d.Event, 30), cli.Line(d.State, 20), strconv.Itoa(d.Attempts), cli.Ago(time.Since(d.CreatedAt)), cli.Line(last, 60)}
		},
	}.command(a)
	cmd.AddCommand(&cobra.Command{
		Use: "replay AGENT DELIVERY", Short: "Send a webhook delivery again, with the same id", Args: cobra.ExactArgs(2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			if err := c.ReplayDelivery(cmd.Context(), args[0], args[1]); err != nil {
				return err
			}
			return a.did("Queued for redelivery:", args[1])
		},
	})
	return cmd
}

func newAgentTerminalsCommand(a *app) *cobra.Command {
	return list[client.Terminal]{
		use: "terminals AGENT", short: "List an agent's shared terminals",
		long: `List the terminals that an agent shares with people; open one with 'aloft agent
attach'. A sleeping machine is woken.`,
		args: cobra.ExactArgs(1), complete: a.completeAgents,
		of: func(ctx context.Context, c *client.Client, args []string) ([]client.Terminal, error) {
			return c.Terminals(ctx, args[0])
		},
		head: []string{"NAME", "RUNS", "IN", "SIZE", "WATCHED BY"}, none: "No terminals yet. Create one with `aloft agent attach`.",
		row: func(t client.Terminal) []string {
			return []string{
				cli.Line(t.Name, 40), cli.Line(t.Command, 40), cli.Line(t.WorkingDirectory, 60),
				strconv.Itoa(t.Columns) + "×" + strconv.Itoa(t.Rows), strconv.Itoa(t.Attached),
			}
		},
	}.command(a)
}
