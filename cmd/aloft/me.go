package main

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
	"aloft/internal/client"
)

func newMeCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "me", Short: "Show whose key you use, and change your name, password and passkeys", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			me, err := c.Me(cmd.Context())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(me)
			}
			a.out.Table([][]string{
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
		Long: `Change your name, or set your e-mail address, which an admin changes once there is
one.`,
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
				return misuse(cmd, errors.New("say what to change: --first-name, --last-name or --email"))
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			u, err := c.UpdateMe(cmd.Context(), in)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(u)
			}
			a.out.Line("%s", cli.Line(strings.TrimSpace(u.FirstName+" "+u.LastName+" "+u.Email), 120))
			return nil
		},
	}
	cmd.Flags().StringVar(&first, "first-name", "", "what you are called")
	cmd.Flags().StringVar(&last, "last-name", "", "what you are called")
	cmd.Flags().StringVar(&email, "email", "", "your address")
	return cmd
}

// maxPassword bounds what is read of a password.
const maxPassword = 4096

func newMePasswordCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "password", Short: "Set the password that you sign in with; your sessions end", Args: cobra.NoArgs,
		Long: `Set the password that you sign in with. It is asked for on a terminal, after the one
of before, which is empty where there is none; else they are the lines of standard
input: the one of before, then the new one. Your other sessions end.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lines := bufio.NewReader(io.LimitReader(a.stdin, maxPassword))
			current, err := a.readPassword(lines, "Password of before (empty for none): ")
			if err != nil {
				return err
			}
			password, err := a.readPassword(lines, "New password: ")
			if err != nil {
				return err
			}
			if password == "" {
				return usageError{errors.New("there is no new password: give the one of before, or an empty line, and then the new one")}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			if err := c.SetPassword(cmd.Context(), current, password); err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct{}{})
			}
			a.out.Line("Your password is set.")
			return nil
		},
	}
}

// readPassword reads a line, unseen where somebody types it.
func (a *app) readPassword(lines *bufio.Reader, ask string) (string, error) {
	if f, ok := a.stdin.(*os.File); ok && cli.IsTerminal(f) {
		a.out.Note("%s", ask)
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
	cmd := list[client.Passkey]{
		use: "passkeys", short: "List your passkeys",
		long: "List your passkeys. A browser makes them: in the dashboard, under your account.",
		of:   plain((*client.Client).Passkeys), head: []string{"ID", "NAME", "MADE", "USED"}, none: "You have no passkeys: the dashboard makes one, under your account.",
		row: func(k client.Passkey) []string {
			used := "never"
			if k.UsedAt != nil {
				used = cli.Ago(time.Since(*k.UsedAt))
			}
			return []string{cli.Line(k.ID, 100), cli.Line(k.Name, 60), cli.Ago(time.Since(k.CreatedAt)), used}
		},
	}.command(a)
	cmd.AddCommand(&cobra.Command{
		Use: "delete ID", Short: "Remove a passkey", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			if err := c.DeletePasskey(cmd.Context(), args[0]); err != nil {
				return err
			}
			return a.did("Removed", args[0])
		},
	})
	return cmd
}
