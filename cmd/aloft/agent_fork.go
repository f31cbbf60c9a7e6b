package main

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
		Short: "Make agents that go on from where an agent is, or was",
		Long: `Make agents that go on from where an agent is, or was.

Each has the conversation so far, a branch of its own, and a machine of its own
that begins with a copy of the agent's disk, also of what was not committed. For
that the agent's machine is stopped for a moment: it goes on when it is needed.
Nothing of the agent itself changes.

With --turn, or where the agent's machine is gone, there is no such disk: the
machines are made anew, with what had been pushed then. The agents are told.

One prompt is for all; several are one for each. The prompt "-" is read from
standard input.`,
		Example: `  aloft agent fork bc-… -n 4 --wait "Make it faster; measure before and after"
  aloft agent fork bc-… "Use a mutex" "Use a channel"
  aloft agent fork bc-… --turn 3 "Not like that: look at the cache first"`,
		Args:              cobra.RangeArgs(2, 11),
		ValidArgsFunction: a.completeAgents,
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
			c, err := a.connect()
			if err != nil {
				return err
			}
			if !a.out.JSON() {
				a.out.Status("saving the disk")
			}
			made, err := c.ForkAgent(cmd.Context(), args[0], in, uuid.NewString())
			if err != nil {
				return err
			}
			if a.out.JSON() && !wait {
				return a.out.Value(made)
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
	flags.IntVarP(&n, "number", "n", 0, "how many to make, at most 10; 1, or one for each prompt, unless given")
	flags.IntVar(&turn, "turn", 0, "`number` of the model's reply after which they go on, from 1; the last unless given")
	model = a.modelFlags(cmd, "`id` of a model; the agent's own unless given", false)
	flags.StringArrayVar(&images, "image", nil, "`file` with a picture for the model, PNG, JPEG, GIF or WebP; may be given up to 5 times")
	flags.BoolVar(&wait, "wait", false, "wait until all have ended, and compare them")
	return cmd
}

// showFork says which agents were made, and on what they go on.
func (a *app) showFork(made client.Fork) {
	if a.out.JSON() {
		return
	}
	rows := [][]string{{"AGENT", "RUN"}}
	for _, m := range made.Items {
		rows = append(rows, []string{cli.Line(m.Agent.ID, 80), cli.Line(m.Run.ID, 80)})
	}
	a.out.Table(rows)
	switch {
	case made.Live:
		a.out.Note("They go on after turn %d, on copies of the machine's disk and processes.", made.Turn)
	case made.Disk:
		a.out.Note("They go on after turn %d, on copies of the machine's disk.", made.Turn)
	default:
		a.out.Note("They go on after turn %d, with what had been pushed then: what was not pushed is not there.", made.Turn)
	}
}

// awaitEvery is how often runs are asked for.
const awaitEvery = time.Second

// awaitRuns returns once all have ended.
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
		if !a.out.JSON() {
			a.out.Status(fmt.Sprintf("%d of %d work", len(left), len(made)))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Message: "no longer waiting; the agents go on", Err: ctx.Err()}
		}
	}
}
