package accounts

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newMeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "me", Short: "Show and change your account", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(me)
			}
			a.Out.Table([][]string{
				{"ID", "NAME", "E-MAIL", "KEY"},
				{strconv.FormatInt(me.UserID, 10), cli.Line(strings.TrimSpace(me.UserFirstName+" "+me.UserLastName), 40), cli.Line(me.UserEmail, 60), cli.Line(me.APIKeyName, 60)},
			})
			return nil
		},
	}
	cmd.AddCommand(newMeUpdateCommand(a), newMePasswordCommand(a), newMePasskeysCommand(a))
	return cmd
}

func newMeUpdateCommand(a *app) *cobra.Command {
	var first, last, email string
	cmd := &cobra.Command{
		Use: "update", Short: "Change your name, or set your e-mail address", Args: cobra.NoArgs,
		Long: `Change your name, or set your e-mail address. Once it is set, only an admin can change
it.`,
		Example: `  aloft me update --first-name Ada --last-name Lovelace`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := map[string]string{}
			for flag, field := range map[string]struct{ name, value string }{
				"first-name": {"firstName", first}, "last-name": {"lastName", last}, "email": {"email", email},
			} {
				if cmd.Flags().Changed(flag) {
					in[field.name] = field.value
				}
			}
			if len(in) == 0 {
				return command.Misuse(cmd, errors.New("nothing to change: give --first-name, --last-name or --email"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			u, err := c.UpdateMe(cmd.Context(), in)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(u)
			}
			a.Out.Line("%s", cli.Line(strings.TrimSpace(u.FirstName+" "+u.LastName+" "+u.Email), 120))
			return nil
		},
	}
	cmd.Flags().StringVar(&first, "first-name", "", "your first name")
	cmd.Flags().StringVar(&last, "last-name", "", "your last name")
	cmd.Flags().StringVar(&email, "email", "", "your e-mail address")
	return cmd
}

// maxPassword is the maximum number of bytes that are read of a password.
const maxPassword = 4096

func newMePasswordCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: "Set your password and end your other sessions", Args: cobra.NoArgs,
		Long: `Set your password and end your other sessions. On a terminal, the command asks for the
current password (empty if there is none) and the new one. Otherwise it reads them from
standard input: the current password on the first line, the new one on the second.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := bufio.NewReader(io.LimitReader(a.Stdin, maxPassword))
			current, err := a.readPassword(lines, "Current password (empty for none): ")
			if err != nil {
				return err
			}
			password, err := a.readPassword(lines, "New password: ")
			if err != nil {
				return err
			}
			if password == "" {
				return command.UsageError(errors.New("missing new password: give the current one (or an empty line), then the new one"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.SetPassword(cmd.Context(), current, password); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct{}{})
			}
			a.Out.Line("Your password is set.")
			return nil
		},
	}
}

// readPassword reads a line, without echo on a terminal.
func (a *app) readPassword(lines *bufio.Reader, ask string) (string, error) {
	if f, ok := a.Stdin.(*os.File); ok && cli.IsTerminal(f) {
		a.Out.Note("%s", ask)
		b, err := term.ReadPassword(int(f.Fd()))
		return string(b), err
	}
	s, err := lines.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return strings.TrimRight(s, "\r\n"), err
}

func newMePasskeysCommand(a *app) *cobra.Command {
	cmd := command.List[client.Passkey]{
		Use: "passkeys", Short: "List your passkeys",
		Long: "List your passkeys. Add passkeys in the dashboard, under your account.",
		Of:   command.WithoutArgs((*client.Client).Passkeys), Head: []string{"ID", "NAME", "CREATED", "LAST USED"}, None: "No passkeys. Add one in the dashboard, under your account.",
		Row: func(k client.Passkey) []string {
			used := "never"
			if k.UsedAt != nil {
				used = cli.Ago(time.Since(*k.UsedAt))
			}
			return []string{cli.Line(k.ID, 100), cli.Line(k.Name, 60), cli.Ago(time.Since(k.CreatedAt)), used}
		},
	}.Command(a.App)
	cmd.AddCommand(&cobra.Command{
		Use: "delete ID", Short: "Remove a passkey", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.DeletePasskey(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.ReportDone("Removed", args[0])
		},
	})
	return cmd
}
