package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newMemberCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "Say who may use the server, and how much they may do",
		Long: `Say who may use the server, and how much they may do.

An owner may do everything. An admin sees and stops everybody's agents and settles
what counts for the team. A member has agents of their own. A viewer reads.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMemberListCommand(a), newMemberInviteCommand(a), newMemberUpdateCommand(a), newMemberLinkCommand(a))
	return cmd
}

func newMemberListCommand(a *app) *cobra.Command {
	return list[client.User]{
		use: "list", short: "List the team", of: plain((*client.Client).Members),
		head: []string{"ID", "NAME", "E-MAIL", "ROLE"},
		row: func(u client.User) []string {
			role := u.Role
			if u.Disabled {
				role += ", disabled"
			}
			return []string{strconv.FormatInt(u.ID, 10), cli.Line(strings.TrimSpace(u.FirstName+" "+u.LastName), 40), cli.Line(u.Email, 60), cli.Line(role, 30)}
		},
	}.command(a)
}

func newMemberInviteCommand(a *app) *cobra.Command {
	var u client.User
	cmd := &cobra.Command{
		Use:   "invite EMAIL",
		Short: "Add somebody, and print the link that they sign in with first",
		Example: `  aloft member invite ada@example.com
  aloft member invite --role viewer --first-name Grace grace@example.com`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			u.Email = args[0]
			made, err := c.Invite(cmd.Context(), u)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(made)
			}
			a.out.Note("Added %s as %s. Give them this link, which signs in once and is good until %s:",
				cli.Line(made.Member.Email, 80), cli.Line(made.Member.Role, 20), made.Link.ExpiresAt.Local().Format(time.DateTime))
			a.out.Line("%s", cli.Line(made.Link.URL, 0))
			return nil
		},
	}
	cmd.Flags().StringVar(&u.Role, "role", "member", "owner, admin, member or viewer")
	cmd.Flags().StringVar(&u.FirstName, "first-name", "", "what they are called")
	cmd.Flags().StringVar(&u.LastName, "last-name", "", "what they are called")
	return cmd
}

func newMemberUpdateCommand(a *app) *cobra.Command {
	var role, email string
	var disable, enable bool
	cmd := &cobra.Command{
		Use:   "update ID",
		Short: "Change somebody's role or address, or shut them out",
		Long: `Change somebody's role or address, or shut them out.

Who is disabled is not let in, nor are their keys; what they have stays.`,
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
				return usageError{fmt.Errorf("say what to change: --role, --email, --disable or --enable")}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			u, err := c.UpdateMember(cmd.Context(), id, in)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(u)
			}
			state := cli.Line(u.Role, 20)
			if u.Disabled {
				state += ", disabled"
			}
			a.out.Line("%d %s: %s", u.ID, cli.Line(u.Email, 80), state)
			return nil
		},
	}
	cmd.Flags().StringVar(&role, "role", "", "owner, admin, member or viewer")
	cmd.Flags().StringVar(&email, "email", "", "their address")
	cmd.Flags().BoolVar(&disable, "disable", false, "let them in no more")
	cmd.Flags().BoolVar(&enable, "enable", false, "let them in again")
	cmd.MarkFlagsMutuallyExclusive("disable", "enable")
	return cmd
}

func newMemberLinkCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "link ID",
		Short: "Print a link that signs somebody in once",
		Long: `Print a link that signs somebody in once. Their password is forgotten when it is
used, so that they can set another; links made before are good no more.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := number(args[0])
			if err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			link, err := c.SignInLink(cmd.Context(), id)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(link)
			}
			a.out.Line("%s", cli.Line(link.URL, 0))
			return nil
		},
	}
}

// number reads an ID of a list.
func number(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, usageError{fmt.Errorf("%q is no ID: it is a number, as the list has it", text)}
	}
	return id, nil
}
