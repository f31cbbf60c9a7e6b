package agents

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentForkCommand(a *app) *cobra.Command {
	var n, turn int
	var model func() (*client.ModelRef, error)
	var images []string
	var wait bool
	cmd := &cobra.Command{
		Use:   `fork AGENT "PROMPT" ["PROMPT"...]`,
		Short: "Create agents that continue from another agent's state",
		Long: `Create agents that continue from another agent's state.

Each fork has the conversation so far, its own branch, and its own machine, which
starts from a copy of the agent's disk, including uncommitted changes. To copy the
disk, the agent's machine is stopped; it restarts when it is next needed. The
agent itself does not change.

With --turn, or if the agent's machine is gone, the disk cannot be copied: the new
machines start from what had been pushed at that turn, and the forks are told so.

With one PROMPT, every fork gets it; with several, each fork gets its own. If
PROMPT is "-", it is read from standard input.`,
		Example: `  aloft agent fork bc-… -n 4 --wait "Make it faster; measure before and after"
  aloft agent fork bc-… "Use a mutex" "Use a channel"
  aloft agent fork bc-… --turn 3 "Not like that: look at the cache first"`,
		Args:              cobra.RangeArgs(2, 11),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := client.NewFork{N: n, Turn: turn}
			var err error
			if in.Model, err = model(); err != nil {
				return err
			}
			for _, arg := range args[1:] {
				prompt, err := a.readPrompt(arg, images)
				if err != nil {
					return err
				}
				in.Prompts = append(in.Prompts, prompt)
			}
			if len(in.Prompts) == 1 {
				in.Prompt, in.Prompts = &in.Prompts[0], nil
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if !a.Out.JSON() {
				a.Out.Status("copying the disk")
			}
			made, err := c.ForkAgent(cmd.Context(), args[0], in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.Out.JSON() && !wait {
				return a.Out.Value(made)
			}
			a.showFork(made)
			if !wait {
				return nil
			}
			ids := make([]string, len(made.Items))
			for i, m := range made.Items {
				ids[i] = m.Agent.ID
			}
			if err := a.awaitRuns(cmd.Context(), c, made.Items); err != nil {
				return err
			}
			return a.compare(cmd.Context(), c, ids, false)
		},
	}
	flags := cmd.Flags()
	flags.IntVarP(&n, "number", "n", 0, "number of forks, at most 10 (default: one per prompt)")
	flags.IntVar(&turn, "turn", 0, "`number` of the model's reply to continue after, from 1 (default: the last)")
	model = a.AddModelFlags(cmd, "model `id` (default: the agent's)", false)
	flags.StringArrayVar(&images, "image", nil, "image `file` for the model: PNG, JPEG, GIF or WebP; may be given up to 5 times")
	flags.BoolVar(&wait, "wait", false, "wait until all forks have finished, then compare them")
	return cmd
}

// showFork prints the new agents and the bases of their machines.
func (a *app) showFork(made client.Fork) {
	if a.Out.JSON() {
		return
	}
	rows := [][]string{{"AGENT", "RUN"}}
	for _, m := range made.Items {
		rows = append(rows, []string{cli.Line(m.Agent.ID, 80), cli.Line(m.Run.ID, 80)})
	}
	a.Out.Table(rows)
	switch {
	case made.Live:
		a.Out.Note("They continue after turn %d, on copies of the machine's disk and processes.", made.Turn)
	case made.Disk:
		a.Out.Note("They continue after turn %d, on copies of the machine's disk.", made.Turn)
	default:
		a.Out.Note("They continue after turn %d, from what had been pushed then. Changes not pushed by then are missing.", made.Turn)
	}
}

// awaitEvery is how often awaitRuns polls the runs.
const awaitEvery = time.Second

// awaitRuns returns when every run has ended.
func (a *app) awaitRuns(ctx context.Context, c *client.Client, made []client.Made) error {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for left := made; ; {
		var open []client.Made
		for _, m := range left {
			run, err := c.Run(ctx, m.Agent.ID, m.Run.ID)
			if err != nil {
				return err
			}
			if !run.Ended() {
				open = append(open, m)
			}
		}
		if left = open; len(left) == 0 {
			return nil
		}
		if !a.Out.JSON() {
			a.Out.Status(fmt.Sprintf("%d of %d running", len(left), len(made)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Message: "stopped waiting; the agents keep running", Err: ctx.Err()}
		}
	}
}
