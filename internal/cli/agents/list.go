package agents

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/fault"
)

// maxPage is the API's largest page size.
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
				return command.Misuse(cmd, errors.New("--limit must be at least 1"))
			}
			c, err := a.Connect()
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
			if a.Out.JSON() {
				return a.Out.Value(list)
			}
			if len(list.Items) == 0 && narrowed != (client.AgentFilter{}) {
				a.Out.Note("No matching agents.")
				return nil
			}
			if len(list.Items) == 0 {
				a.Out.Note("No agents yet. Start one with `aloft run`.")
				return nil
			}
			rows := [][]string{{"ID", "NAME", "STATUS", "CREATED"}}
			for _, agent := range list.Items {
				rows = append(rows, []string{
					cli.Line(agent.ID, 80), cli.Line(agent.Name, 48), string(agent.ListStatus()), cli.Ago(time.Since(agent.CreatedAt)),
				})
			}
			a.Out.Table(rows)
			if list.NextCursor != "" {
				a.Out.Note("More agents not shown; raise --limit to see them.")
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of agents to list")
	cmd.Flags().BoolVar(&filter.Archived, "all", false, "include archived agents")
	cmd.Flags().BoolVar(&filter.Everybody, "everybody", false, "include other members' agents that your role lets you see")
	cmd.Flags().StringVar(&user, "user", "", "only agents of this member, by e-mail address or ID")
	cmd.Flags().StringVar(&filter.Search, "search", "", "only agents with all of these `words` in their id, name, model or repository")
	cmd.Flags().StringVar(&filter.Repository, "repository", "", "only agents on this repository: its `URL`, or the end of it (owner/name)")
	cmd.Flags().StringVar(&filter.Status, "status", "", "only agents with one of these comma-separated `statuses`: asks, needs-you, working, finished, failed, stopped, archived")
	cmd.Flags().StringVar(&filter.From, "from", "", "only agents created on or after this `date`, or at or after an RFC 3339 time")
	cmd.Flags().StringVar(&filter.To, "to", "", "only agents created on or before this `date`, or before an RFC 3339 time")
	return cmd
}

// memberNamed returns the ID of the member with the given e-mail address or ID, or
// 0 if name is empty.
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
	return 0, fault.NotFound("no member has the e-mail address %s", cli.Line(name, 80)).Hint("list members with `aloft member list`")
}
