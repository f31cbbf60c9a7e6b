package agents

import (
	"errors"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentRetryCommand(a *app) *cobra.Command {
	var in client.Retry
	var images []string
	var model string
	var follow bool
	cmd := &cobra.Command{
		Use:   `retry AGENT ["PROMPT"]`,
		Short: "Rewind a conversation to an earlier turn and try again",
		Long: `Rewind a conversation to an earlier turn and try again.

Without --turn, the last run is repeated, with its own prompt or with PROMPT. With
--turn, that reply of the model and everything after it are replaced; if the reply
is the first of its run, the run's prompt is replaced too. If PROMPT is "-", it is
read from standard input.

Only the conversation is rewound. Files, commits and processes in the machine stay
as they are, and the model is told so. To start from what was pushed at that turn
instead, use 'aloft agent fork'. Replaced turns stay in the journal: see 'aloft
agent logs'.`,
		Example: `  aloft agent retry bc-…
  aloft agent retry bc-… --model local
  aloft agent retry bc-… "Make it shorter"
  aloft agent retry bc-… --turn 3 "Not like that: look at the cache first"`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Turn != 0 && in.RunID != "" {
				return command.UsageError(errors.New("give --turn or --run, not both"))
			}
			if len(args) > 1 {
				prompt, err := a.readPrompt(args[1], images)
				if err != nil {
					return err
				}
				in.Prompt = &prompt
			}
			if model != "" {
				in.Model = &client.ModelRef{ID: model}
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			done, err := c.RetryTurn(cmd.Context(), args[0], in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				err = a.Out.Value(done)
			} else {
				a.ShowIDs(args[0], done.Run.ID)
				a.Out.Note("Replaced %d turns. The machine is unchanged.", done.Replaced)
			}
			if err != nil {
				return err
			}
			return a.WatchNewRun(cmd.Context(), c, args[0], done.Run.ID, follow)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&in.Turn, "turn", 0, "`number` of the first model reply to replace, from 1")
	flags.StringVar(&in.RunID, "run", "", "`id` of the run to repeat, instead of --turn (default: the last)")
	flags.StringVar(&model, "model", "", "model `id` to continue with; list them with aloft models")
	flags.StringArrayVar(&images, "image", nil, "image `file` for the model: PNG, JPEG, GIF or WebP; may be given up to 5 times")
	flags.BoolVar(&follow, "follow", true, "watch until the run ends")
	a.AddOutputFlag(cmd)
	return cmd
}
