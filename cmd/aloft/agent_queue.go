package main

import (
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentQueueCommand(a *app) *cobra.Command {
	var images []string
	var remove string
	cmd := &cobra.Command{
		Use:   `queue AGENT ["PROMPT"]`,
		Short: "Give an agent a prompt for when it is free, or list those that wait",
		Long: `Give an agent a prompt for when it is free, or list those that wait.

The server keeps them, and begins the next when the run before it has ended,
however it ended. An agent that is free begins at once. The prompt "-" is read from
standard input.`,
		Example: `  aloft agent queue bc-… "Then update the changelog"
  aloft agent queue bc-…
  aloft agent queue bc-… --remove run-…`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			ctx, id := cmd.Context(), args[0]
			if remove != "" {
				if err := c.Unqueue(ctx, id, remove); err != nil {
					return err
				}
				return a.did("Taken back from", id)
			}
			if len(args) > 1 {
				prompt, err := a.readPrompt(args[1], images)
				if err != nil {
					return err
				}
				queued, err := c.QueuePrompt(ctx, id, prompt, uuid.NewString())
				if err != nil {
					return err
				}
				if a.out.JSON() {
					return a.out.Value(queued)
				}
				a.showIDs(id, queued.RunID)
				if !queued.Started {
					a.out.Note("It begins when the runs before it have ended.")
				}
				return nil
			}
			waiting, err := c.Queue(ctx, id)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(waiting)
			}
			if len(waiting) == 0 {
				a.out.Note("Nothing waits.")
				return nil
			}
			rows := [][]string{{"RUN", "QUEUED", "PROMPT"}}
			for _, w := range waiting {
				rows = append(rows, []string{cli.Line(w.RunID, 80), cli.Ago(time.Since(w.QueuedAt)), cli.Line(w.Text, 60)})
			}
			a.out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&images, "image", nil, "`file` with a picture for the model, PNG, JPEG, GIF or WebP; may be given up to 5 times")
	cmd.Flags().StringVar(&remove, "remove", "", "take the prompt of the run of this `id` back")
	return cmd
}
