package accounts

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newKeyCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "key", Short: "Manage your API keys and sessions", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeyListCommand(a), newKeyCreateCommand(a), newKeyDeleteCommand(a), newKeySubTokenCommand(a))
	return cmd
}

func newKeyListCommand(a *app) *cobra.Command {
	return command.List[client.Key]{
		Use: "list", Short: "List your API keys and sessions, newest first", Of: command.WithoutArgs((*client.Client).Keys),
		Head: []string{"ID", "KIND", "NAME", "MADE", "ENDS"},
		Row: func(k client.Key) []string {
			name, ends := cli.Line(k.Name, 60), "never"
			if k.Current {
				name += " (this one)"
			}
			if k.ExpiresAt != nil {
				ends = k.ExpiresAt.Local().Format(time.DateOnly)
			}
			return []string{strconv.FormatInt(k.ID, 10), cli.Line(k.Kind, 20), name, cli.Ago(time.Since(k.CreatedAt)), ends}
		},
	}.Command(a.App)
}

func newKeyCreateCommand(a *app) *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key and print it once",
		Example: `  aloft key create deploy --days 90
  aloft key create laptop > ~/.config/aloft/key`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			made, err := c.CreateKey(cmd.Context(), args[0], days)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Line("%s", cli.Line(made.Text, 0))
			return nil
		},
	}
	cmd.Flags().IntVar(&days, "days", 0, "number of `days` until the key expires (default: never)")
	return cmd
}

func newKeyDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "delete ID", Short: "Delete an API key, or end a session", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.DeleteKey(cmd.Context(), id); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]int64{"id": id})
			}
			a.Out.Line("Deleted %d.", id)
			return nil
		},
	}
}

func newKeySubTokenCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "sub-token EMAIL",
		Short: "Print a one-hour token that acts for another member; admins only",
		Long: `Print a token that acts for a member for one hour, for programs that work on behalf of
others. With their own key, admins can create tokens for members, viewers and
themselves; owners, for anybody.`,
		Example: `  ALOFT_API_KEY=$(aloft key sub-token ada@example.com) aloft agent list`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			made, err := c.SubToken(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Line("%s", cli.Line(made.AccessToken, 0))
			return nil
		},
	}
}
