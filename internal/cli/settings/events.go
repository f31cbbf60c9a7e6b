package settings

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newEventsCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List and replay events that forges and other services have sent",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEventsListCommand(a), newEventsReplayCommand(a))
	return cmd
}

func newEventsListCommand(a *app) *cobra.Command {
	var state string
	cmd := command.List[client.InboundEvent]{
		Use: "list", Short: "List received events, newest first",
		Long: `List events that forges and other services have sent to this server's connections,
newest first. Events are listed for a week. Admins only.`,
		Example: `  aloft events list
  aloft events list --state failed`,
		Of: func(ctx context.Context, c *client.Client, _ []string) ([]client.InboundEvent, error) {
			return c.InboundEvents(ctx, state)
		},
		Head: []string{"ID", "CONNECTION", "KIND", "STATE", "TRIES", "RECEIVED", "REASON"}, None: "No events yet.",
		Row: func(e client.InboundEvent) []string {
			return []string{
				cli.Line(e.ID, 80), cli.Line(e.Source+"/"+e.Connection, 80), cli.Line(e.Kind, 40), cli.Line(e.State, 20), strconv.Itoa(e.Attempts),
				cli.Ago(time.Since(e.ReceivedAt)), cli.Line(e.Reason, 100),
			}
		},
	}.Command(a.App)
	cmd.Flags().StringVar(&state, "state", "", "only events in this `state`: queued, done, ignored or failed")
	return cmd
}

func newEventsReplayCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "replay EVENT",
		Short: "Handle a received event again",
		Long: `Handle a received event again. The server reads the pull request again; agents do not
get the same news twice. Possible for a day after the event. Admins only.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.ReplayInboundEvent(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.ReportDone("Queued again:", args[0])
		},
	}
}
