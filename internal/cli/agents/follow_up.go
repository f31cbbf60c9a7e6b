package agents

import (
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/client"
)

func newAgentFollowUpCommand(a *app) *cobra.Command {
	var images, checks []string
	var noChecks bool
	var model func() (*client.ModelRef, error)
	var mode, goal string
	var follow bool
	var limits func() (*client.Amount, error)
	cmd := &cobra.Command{
		Use:   `follow-up AGENT "PROMPT"`,
		Short: "Send an agent a follow-up prompt",
		Long: `Send an agent a follow-up prompt, in the same conversation and the same machine.

The agent continues where the previous run ended. A run that reached a limit can be
continued too: each run has its own limits.

Ctrl-C stops watching; the agent keeps running. If PROMPT is "-", it is read from
standard input.`,
		Example: `  aloft agent follow-up bc-… "Now add a test for it"
  aloft agent follow-up bc-… --max-turns 100 "Go on"`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt, err := a.readPrompt(args[1], images)
			if err != nil {
				return err
			}
			in := client.FollowUp{Prompt: prompt, Mode: mode}
			if in.Model, err = model(); err != nil {
				return err
			}
			if in.Checks = checks; noChecks {
				in.Checks = []string{}
			}
			if cmd.Flags().Changed("goal") {
				in.Goal = &goal
			}
			if in.Limits, err = limits(); err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			run, err := c.FollowUp(cmd.Context(), args[0], in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				err = a.Out.Value(struct {
					Run client.Run `json:"run"`
				}{run})
			} else {
				a.ShowIDs(args[0], run.ID)
			}
			if err != nil {
				return err
			}
			return a.WatchNewRun(cmd.Context(), c, args[0], run.ID, follow)
		},
	}
	cmd.Flags().StringArrayVar(&images, "image", nil, "image `file` for the model: PNG, JPEG, GIF or WebP; may be given up to 5 times")
	model = a.AddModelFlags(cmd, "model `id` for this and later runs, or default (default: unchanged)", false)
	cmd.Flags().StringVar(&mode, "mode", "", "`mode` for this and later runs: plan (make no changes until you approve a plan) or agent (default: unchanged)")
	cmd.Flags().StringArrayVar(&checks, "check", nil, "shell `command` that must pass on the commit of this and later runs, instead of the previous ones; may be given up to 20 times")
	cmd.Flags().BoolVar(&noChecks, "no-checks", false, "run no checks in this and later runs, except the environment's")
	cmd.MarkFlagsMutuallyExclusive("check", "no-checks")
	cmd.Flags().StringVar(&goal, "goal", "", "goal of this and later runs, in `words`; empty for none (default: unchanged)")
	limits = limitFlags(cmd)
	cmd.Flags().BoolVar(&follow, "follow", true, "watch until the run ends")
	a.AddOutputFlag(cmd)
	return cmd
}
