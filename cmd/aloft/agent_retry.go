package main

import (
	"errors"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/client"
)

func newAgentRetryCommand(a *app) *cobra.Command {
	var in client.Retry
	var images []string
	var model string
	var follow bool
	cmd := &cobra.Command{
		Use:   `retry AGENT ["PROMPT"]`,
		Short: "Take a conversation back to before a turn, and go on from there",
		Long: `Take a conversation back to before a turn, and go on from there.

Without a turn the last run is begun anew, with its own prompt or with the one
given. With --turn the model's reply of that number and all after it are replaced;
where it is the first of its run, so is the prompt before it. The prompt "-" is
read from standard input.

Only the conversation goes back: files, commits and processes in the machine stay
as they are, and the model is told so. 'aloft agent fork' makes another agent
instead, whose machine begins with what was pushed then. What is replaced stays in
the journal: 'aloft agent logs' shows it.`,
		Example: `  aloft agent retry bc-…
  aloft agent retry bc-… --model local
  aloft agent retry bc-… "Say it in fewer words"
  aloft agent retry bc-… --turn 3 "Not like that: look at the cache first"`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if in.Turn != 0 && in.RunID != "" {
				return usageError{errors.New("give --turn or --run")}
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
			c, err := a.connect()
			if err != nil {
				return err
			}
			done, err := c.RetryTurn(cmd.Context(), args[0], in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				err = a.out.Value(done)
			} else {
				a.showIDs(args[0], done.Run.ID)
				a.out.Note("%d turns are replaced; the machine is as they left it.", done.Replaced)
			}
			if err != nil {
				return err
			}
			return a.started(cmd.Context(), c, args[0], done.Run.ID, follow)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&in.Turn, "turn", 0, "`number` of the first reply of the model that is replaced, from 1")
	flags.StringVar(&in.RunID, "run", "", "`id` of the run that is begun anew, in place of --turn; the last unless given")
	flags.StringVar(&model, "model", "", "`id` of the model to go on with, as aloft models lists them")
	flags.StringArrayVar(&images, "image", nil, "`file` with a picture for the model, PNG, JPEG, GIF or WebP; may be given up to 5 times")
	flags.BoolVar(&follow, "follow", true, "watch until the run has ended")
	return cmd
}
