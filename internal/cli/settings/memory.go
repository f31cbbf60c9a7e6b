package settings

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newMemoryCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Review what agents have written down about repositories",
		Long: `Review what agents have written down about repositories for later agents.

Agents write memories if the team's setting memory is review or on. With review, no
agent gets a memory until a person has approved it.`,
		Example: `  aloft memory
  aloft memory show mem-3f2a…
  aloft memory approve mem-3f2a…`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listMemories(cmd.Context(), "") },
	}
	cmd.AddCommand(newMemoryListCommand(a), newMemoryShowCommand(a), newMemoryEditCommand(a),
		newMemoryChangeCommand(a, "approve ID", "Approve the proposed change of a memory", "Approved", func(ctx context.Context, c *client.Client, m client.Memory) error {
			return c.DecideMemory(ctx, m.ID, m.Revision, true)
		}),
		newMemoryChangeCommand(a, "reject ID", "Reject the proposed change of a memory; a new memory is deleted", "Rejected", func(ctx context.Context, c *client.Client, m client.Memory) error {
			return c.DecideMemory(ctx, m.ID, m.Revision, false)
		}),
		newMemoryChangeCommand(a, "delete ID", "Delete a memory and its proposal", "Deleted", func(ctx context.Context, c *client.Client, m client.Memory) error {
			return c.DeleteMemory(ctx, m.ID, m.Revision)
		}))
	return cmd
}

func newMemoryListCommand(a *app) *cobra.Command {
	var repo string
	cmd := &cobra.Command{
		Use: "list", Short: "List memories, those that wait for approval first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.listMemories(cmd.Context(), repo) },
	}
	cmd.Flags().StringVar(&repo, "repo", "", "only memories of this `repository`")
	return cmd
}

func (a *app) listMemories(ctx context.Context, repo string) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	all, err := c.Memories(ctx, repo)
	if err != nil {
		return err
	}
	if a.Out.JSON() {
		return a.Out.Value(all)
	}
	if len(all.Items) == 0 {
		a.Out.Note("No memories. Agents write them if the setting memory is on: `aloft settings set memory review`.")
		return nil
	}
	rows := [][]string{{"ID", "REPOSITORY", "TITLE", "WAITING"}}
	for _, m := range all.Items {
		title, waiting := m.Title, ""
		if p := m.Proposal; p != nil {
			waiting = p.Action
			if title == "" {
				title = p.Title
			}
		}
		rows = append(rows, []string{m.ID, cli.Line(m.Repository, 60), cli.Line(title, 60), cli.Line(waiting, 10)})
	}
	a.Out.Table(rows)
	if all.Truncated {
		a.Out.Note("There are more: list one repository with --repo.")
	}
	return nil
}

func newMemoryShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a memory and its proposed change", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			m, err := c.Memory(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(m)
			}
			a.Out.Line("%s  %s  revision %d", m.ID, cli.Line(m.Repository, 200), m.Revision)
			if m.Text != "" {
				a.Out.Line("\n%s", cli.Line(m.Title, 0))
				a.Out.Text(strings.TrimRight(cli.Clean(m.Text), "\n") + "\n")
			}
			if p := m.Proposal; p != nil {
				a.Out.Line("\nWaits for approval: %s, by agent %s", cli.Line(p.Action, 10), cli.Line(p.Author.AgentID, 60))
				if p.Text != "" {
					a.Out.Line("%s", cli.Line(p.Title, 0))
					a.Out.Text(strings.TrimRight(cli.Clean(p.Text), "\n") + "\n")
				}
			}
			return nil
		},
	}
}

func newMemoryEditCommand(a *app) *cobra.Command {
	var title string
	cmd := &cobra.Command{
		Use: "edit ID [FILE]", Short: "Replace the text of a memory by FILE or standard input, which also approves it", Args: cobra.RangeArgs(1, 2),
		Example: `  aloft memory edit mem-3f2a… --title "Tests" < text.md`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.readRule(args)
			if err != nil {
				return err
			}
			return a.withMemory(cmd.Context(), args[0], "Changed", func(ctx context.Context, c *client.Client, m client.Memory) error {
				if title == "" {
					title = m.Title
				}
				if title == "" && m.Proposal != nil {
					title = m.Proposal.Title
				}
				_, err := c.UpdateMemory(ctx, m.ID, m.Revision, title, text)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&title, "title", "", "new `title` (default: unchanged)")
	return cmd
}

// newMemoryChangeCommand returns a command that changes one memory.
func newMemoryChangeCommand(a *app, use, short, done string, change func(context.Context, *client.Client, client.Memory) error) *cobra.Command {
	var revision string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withMemory(cmd.Context(), args[0], done, func(ctx context.Context, c *client.Client, m client.Memory) error {
				if revision != "" {
					n, err := strconv.ParseInt(revision, 10, 64)
					if err != nil {
						return command.UsageError(err)
					}
					m.Revision = n
				}
				return change(ctx, c, m)
			})
		},
	}
	cmd.Flags().StringVar(&revision, "revision", "", "fail if the memory no longer has this `number`, which show prints")
	return cmd
}

// withMemory reads a memory, changes it and says so.
func (a *app) withMemory(ctx context.Context, id, done string, change func(context.Context, *client.Client, client.Memory) error) error {
	c, err := a.Connect()
	if err != nil {
		return err
	}
	m, err := c.Memory(ctx, id)
	if err != nil {
		return err
	}
	if err := change(ctx, c, m); err != nil {
		return err
	}
	if a.Out.JSON() {
		return a.Out.Value(map[string]string{"id": m.ID})
	}
	a.Out.Line("%s %s.", done, m.ID)
	return nil
}
