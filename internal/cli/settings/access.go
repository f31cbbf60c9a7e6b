package settings

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAccessCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "access",
		Short: "Show or set which repositories members may run agents on",
		Long: `Show or set which repositories members may run agents on.

With 'credentials', the default, members may use every repository that the
credentials in the server's configuration can reach. With 'allow-list' they may
use only the listed repositories: one list is for all members, and each member
has one more. Admins and owners are not limited.`,
		Example: `  aloft access
  aloft access allow github.com/acme/website
  aloft access allow --member ada@example.com 'github.com/acme/*'
  aloft access use allow-list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.access(cmd.Context(), func(ctx context.Context, c *client.Client) (client.Access, error) { return c.Access(ctx) })
		},
	}
	cmd.AddCommand(
		&cobra.Command{
			Use: "use allow-list|credentials", Short: "Choose how repository access is decided", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				return a.access(cmd.Context(), func(ctx context.Context, c *client.Client) (client.Access, error) {
					return c.UpdateAccess(ctx, client.AccessChange{Mode: args[0]})
				})
			},
		},
		newAccessListCommand(a, "allow", "Allow repositories: host/owner/name, host/owner/* or *", func(list, args []string) ([]string, error) {
			return append(slices.Clone(list), args...), nil
		}),
		newAccessListCommand(a, "remove", "Remove repositories from an allow list", func(list, args []string) ([]string, error) {
			for _, arg := range args {
				if !slices.Contains(list, arg) {
					return nil, &cli.Problem{Exit: cli.NotFound, Code: "not_found", Message: fmt.Sprintf("%q is not on that list", arg), Hint: "see the lists with `aloft access`"}
				}
			}
			return slices.DeleteFunc(slices.Clone(list), func(entry string) bool { return slices.Contains(args, entry) }), nil
		}))
	return cmd
}

// newAccessListCommand returns a command that changes one allow list.
func newAccessListCommand(a *app, name, short string, change func(list, args []string) ([]string, error)) *cobra.Command {
	var member string
	cmd := &cobra.Command{
		Use: name + " REPOSITORY...", Short: short, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.access(cmd.Context(), func(ctx context.Context, c *client.Client) (client.Access, error) {
				now, err := c.Access(ctx)
				if err != nil {
					return now, err
				}
				list, to := now.Everyone, client.AccessChange{}
				id := int64(0)
				if member != "" {
					if id, err = memberID(ctx, c, member); err != nil {
						return now, err
					}
					list = now.Of(id)
				}
				if list, err = change(list, args); err != nil {
					return now, err
				}
				if list == nil {
					list = []string{}
				}
				if id != 0 {
					to.Members = []client.MemberAccess{{UserID: id, Repositories: list}}
				} else {
					to.Everyone = &list
				}
				return c.UpdateAccess(ctx, to)
			})
		},
	}
	cmd.Flags().StringVar(&member, "member", "", "`member` whose list to change, by ID or e-mail address (default: the list for all members)")
	return cmd
}

// memberID returns the ID of the member with the given ID or e-mail address.
func memberID(ctx context.Context, c *client.Client, name string) (int64, error) {
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return id, nil
	}
	all, err := c.Members(ctx)
	if err != nil {
		return 0, err
	}
	for _, u := range all {
		if strings.EqualFold(u.Email, name) {
			return u.ID, nil
		}
	}
	return 0, command.UsageError(errors.New("no member " + strconv.Quote(name) + ": list members with aloft member list"))
}

// access calls do, then prints the allow lists that it returns.
func (a *app) access(ctx context.Context, do func(context.Context, *client.Client) (client.Access, error)) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	now, err := do(ctx, c)
	if err != nil {
		return err
	}
	if a.Out.JSON() {
		return a.Out.Value(now)
	}
	switch now.Mode {
	case client.ByAllowList:
		a.Out.Line("In force: allow-list. Members can run agents only on listed repositories.")
	default:
		a.Out.Line("In force: credentials. Members can run agents on every repository that the server's credentials can reach; the lists are kept but not used.")
	}
	rows := [][]string{{"WHO", "REPOSITORY"}}
	for _, entry := range now.Everyone {
		rows = append(rows, []string{"all members", cli.Line(entry, 200)})
	}
	for _, m := range now.Members {
		for _, entry := range m.Repositories {
			rows = append(rows, []string{"member " + strconv.FormatInt(m.UserID, 10), cli.Line(entry, 200)})
		}
	}
	if len(rows) > 1 {
		a.Out.Table(rows)
	}
	return nil
}
