package agents

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
		Short: "Queue a prompt for an agent, or list its queue",
		Long: `Queue a prompt for an agent, or list its queue.

The server starts the next queued prompt when the current run ends, whatever its
result. An idle agent starts at once. If PROMPT is "-", it is read from standard
input.`,
		Example: `  aloft agent queue bc-… "Then update the changelog"
  aloft agent queue bc-…
  aloft agent queue bc-… --remove run-…`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ctx, id := cmd.Context(), args[0]
			if remove != "" {
				if err := c.Unqueue(ctx, id, remove); err != nil {
					return err
				}
				return a.ReportDone("Removed the prompt from the queue of", id)
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
				if a.Out.JSON() {
					return a.Out.Value(queued)
				}
				a.ShowIDs(id, queued.RunID)
				if !queued.Started {
					a.Out.Note("It starts when the runs before it have ended.")
				}
				return nil
			}
			waiting, err := c.Queue(ctx, id)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(waiting)
			}
			if len(waiting) == 0 {
				a.Out.Note("The queue is empty.")
				return nil
			}
			rows := [][]string{{"RUN", "QUEUED", "PROMPT"}}
			for _, w := range waiting {
				rows = append(rows, []string{cli.Line(w.RunID, 80), cli.Ago(time.Since(w.QueuedAt)), cli.Line(w.Text, 60)})
			}
			a.Out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&images, "image", nil, "image `file` for the model: PNG, JPEG, GIF or WebP; may be given up to 5 times")
	cmd.Flags().StringVar(&remove, "remove", "", "remove the queued prompt with this run `id`")
	return cmd
}
