package accounts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newMemberCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "Manage members and their roles",
		Long: `Manage members and their roles.

Owners may do everything. Admins see and stop everybody's agents and change the team's
settings. Members have their own agents. Viewers can only read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMemberListCommand(a), newMemberInviteCommand(a), newMemberUpdateCommand(a), newMemberLinkCommand(a))
	return cmd
}

func newMemberListCommand(a *app) *cobra.Command {
	return command.List[client.User]{
		Use: "list", Short: "List the team", Of: command.WithoutArgs((*client.Client).Members),
		Head: []string{"ID", "NAME", "E-MAIL", "ROLE"},
		Row: func(u client.User) []string {
			role := u.Role
			if u.Disabled {
				role += ", disabled"
			}
			return []string{strconv.FormatInt(u.ID, 10), cli.Line(strings.TrimSpace(u.FirstName+" "+u.LastName), 40), cli.Line(u.Email, 60), cli.Line(role, 30)}
		},
	}.Command(a.App)
}

func newMemberInviteCommand(a *app) *cobra.Command {
	var u client.User
	cmd := &cobra.Command{
		Use:   "invite EMAIL",
		Short: "Add a member and print their sign-in link",
		Example: `  aloft member invite ada@example.com
  aloft member invite --role viewer --first-name Grace grace@example.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			u.Email = args[0]
			made, err := c.Invite(cmd.Context(), u)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(made)
			}
			a.Out.Note("Added %s as %s. Send them this link. It works once, until %s:",
				cli.Line(made.Member.Email, 80), cli.Line(made.Member.Role, 20), made.Link.ExpiresAt.Local().Format(time.DateTime))
			a.Out.Line("%s", cli.Line(made.Link.URL, 0))
			return nil
		},
	}
	cmd.Flags().StringVar(&u.Role, "role", "member", "owner, admin, member or viewer")
	cmd.Flags().StringVar(&u.FirstName, "first-name", "", "first name")
	cmd.Flags().StringVar(&u.LastName, "last-name", "", "last name")
	return cmd
}

func newMemberUpdateCommand(a *app) *cobra.Command {
	var role, email string
	var disable, enable bool
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Change a member's role or e-mail address, or disable them",
		Long: `Change a member's role or e-mail address, or disable them.

A disabled member cannot sign in, and their keys stop working. Their agents and data
are kept.`,
		Example: `  aloft member update 3 --role admin
  aloft member update 3 --disable`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			var in client.MemberUpdate
			if cmd.Flags().Changed("role") {
				in.Role = &role
			}
			if cmd.Flags().Changed("email") {
				in.Email = &email
			}
			if disable || enable {
				in.Disabled = &disable
			}
			if in == (client.MemberUpdate{}) {
				return command.UsageError(fmt.Errorf("nothing to change: give --role, --email, --disable or --enable"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			u, err := c.UpdateMember(cmd.Context(), id, in)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(u)
			}
			state := cli.Line(u.Role, 20)
			if u.Disabled {
				state += ", disabled"
			}
			a.Out.Line("%d %s: %s", u.ID, cli.Line(u.Email, 80), state)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "owner, admin, member or viewer")
	cmd.Flags().StringVar(&email, "email", "", "e-mail address")
	cmd.Flags().BoolVar(&disable, "disable", false, "disable the member")
	cmd.Flags().BoolVar(&enable, "enable", false, "enable a disabled member")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	return cmd
}

func newMemberLinkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "link ID",
		Short: "Print a one-time sign-in link for a member",
		Long: `Print a one-time sign-in link for a member. Using it clears their password, so that they
can set a new one. Earlier links stop working.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			link, err := c.SignInLink(cmd.Context(), id)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(link)
			}
			a.Out.Line("%s", cli.Line(link.URL, 0))
			return nil
		},
	}
}

// number parses an ID.
func number(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, command.UsageError(fmt.Errorf("invalid ID %q: must be a number from the list", text))
	}
	return id, nil
}
