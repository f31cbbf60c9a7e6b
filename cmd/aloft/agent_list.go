package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/fault"
)

// maxPage is the most that the API gives at once.
const maxPage = 100

func newAgentListCommand(a *app) *cobra.Command {
	var limit int
	var filter client.AgentFilter
	var user string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List agents, newest first",
		Example: `  aloft agent list --status needs-you
  aloft agent list --search "flaky cart" --repository acme/shop --from 2030-01-01
  aloft agent list --everybody --status working,failed
  aloft agent list --user ada@example.com --all`,
		Args:    cobra.NoArgs,
		Aliases: []string{"ls"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return misuse(cmd, errors.New("--limit has to be 1 or more"))
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			if filter.UserID, err = memberNamed(cmd, c, user); err != nil {
				return err
			}
			narrowed := filter
			narrowed.Archived = false
			list := client.AgentPage{Items: []client.Agent{}}
			for len(list.Items) < limit {
				page, err := c.FindAgents(cmd.Context(), min(limit-len(list.Items), maxPage), list.NextCursor, filter)
				if err != nil {
					return err
				}
				list.Items = append(list.Items, page.Items...)
				if list.NextCursor = page.NextCursor; list.NextCursor == "" || len(page.Items) == 0 {
					break
				}
			}
			if a.out.JSON() {
				return a.out.Value(list)
			}
			if len(list.Items) == 0 && narrowed != (client.AgentFilter{}) {
				a.out.Note("No agent is so.")
				return nil
			}
			if len(list.Items) == 0 {
				a.out.Note("There are no agents yet. Make one with `aloft run`.")
				return nil
			}
			rows := [][]string{{"ID", "NAME", "STATUS", "CREATED"}}
			for _, agent := range list.Items {
				rows = append(rows, []string{
					cli.Line(agent.ID, 80), cli.Line(agent.Name, 48), string(agent.Standing()), cli.Ago(time.Since(agent.CreatedAt)),
				})
			}
			a.out.Table(rows)
			if list.NextCursor != "" {
				a.out.Note("There are more; --limit shows them.")
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "the most to list")
	cmd.Flags().BoolVar(&filter.Archived, "all", false, "list archived agents too")
	cmd.Flags().BoolVar(&filter.Everybody, "everybody", false, "list everybody's, as far as your role lets you see them")
	cmd.Flags().StringVar(&user, "user", "", "list those of this member, by e-mail address or number")
	cmd.Flags().StringVar(&filter.Search, "search", "", "list those with every one of these `words` in id, name, model or repository")
	cmd.Flags().StringVar(&filter.Repository, "repository", "", "list those on this repository: its `address`, or how that ends (owner/name)")
	cmd.Flags().StringVar(&filter.Status, "status", "", "list those that stand so: asks, needs-you, working, finished, failed, stopped, archived; `some`, with commas between")
	cmd.Flags().StringVar(&filter.From, "from", "", "list those made on this `day` or later; or at a time, RFC 3339")
	cmd.Flags().StringVar(&filter.To, "to", "", "list those made on this `day` or before; or before a time")
	return cmd
}

// memberNamed is the number of the member who is named by an address or a number; 0 for
// nobody.
func memberNamed(cmd *cobra.Command, c *client.Client, name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	if id, err := strconv.ParseInt(name, 10, 64); err == nil {
		return id, nil
	}
	all, err := c.Members(cmd.Context())
	if err != nil {
		return 0, err
	}
	for _, u := range all {
		if strings.EqualFold(u.Email, name) {
			return u.ID, nil
		}
	}
	return 0, fault.NotFound("no member has the address %s", cli.Line(name, 80)).Hint("`aloft member list` lists them")
}
