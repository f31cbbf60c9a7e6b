package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// maxPage is the most that the API gives at once.
const maxPage = 100

func newAgentListCommand(a *app) *cobra.Command {
	var limit int
	var all bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List agents, newest first",
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
			list := client.AgentPage{Items: []client.Agent{}}
			for len(list.Items) < limit {
				page, err := c.Agents(cmd.Context(), min(limit-len(list.Items), maxPage), list.NextCursor, all)
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
			if len(list.Items) == 0 {
				a.out.Note("There are no agents yet. Make one with `aloft run`.")
				return nil
			}
			rows := [][]string{{"ID", "NAME", "STATUS", "CREATED"}}
			for _, agent := range list.Items {
				if agent.Waiting > 0 {
					agent.Status += ", waits for you"
				}
				rows = append(rows, []string{
					cli.Line(agent.ID, 80), cli.Line(agent.Name, 48), cli.Line(agent.Status, 40), cli.Ago(time.Since(agent.CreatedAt)),
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
	cmd.Flags().BoolVar(&all, "all", false, "list archived agents too")
	return cmd
}
