package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentLogsCommand(a *app) *cobra.Command {
	var follow bool
	var runID string
	var part client.Part
	cmd := &cobra.Command{
		Use:   "logs AGENT",
		Short: "Show what an agent did",
		Long: `Show what an agent did, from its first run.

With --follow, keep printing until the current run ends, then exit with the code
that 'aloft run' would use. With --json, print the agent's journal, one event per
line.

To read a long journal from its end, use --tail for the last events and --before
for the events before a given one (the number shown as seq by --json).`,
		Example: `  aloft agent logs bc-1 --follow
  aloft agent logs bc-1 --tail 50
  aloft agent logs bc-1 --output
  aloft agent logs bc-1 --json --tail 200 --before 4711`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if part.Last < 0 || part.Last > client.MostLast {
				return command.Misuse(cmd, fmt.Errorf("--tail must be a number from 1 to %d", client.MostLast))
			}
			if part.Before < 0 {
				return command.Misuse(cmd, errors.New("--before must be an event number"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			return a.logs(cmd.Context(), c, command.Journal{AgentID: args[0], Part: part, Follow: follow}, runID)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the run ends")
	a.AddOutputFlag(cmd)
	cmd.Flags().StringVar(&runID, "run", "", "only the run with this `id`")
	cmd.Flags().IntVarP(&part.Last, "tail", "n", 0, "only the last `n` events")
	cmd.Flags().Int64Var(&part.Before, "before", 0, "only events before the one with this `number`")
	cmd.MarkFlagsMutuallyExclusive("before", "follow") // new events never come before an existing event
	return cmd
}

func (a *app) logs(ctx context.Context, c *client.Client, j command.Journal, runID string) error {
	last := runID // following stops when this run ends
	if runID != "" {
		if _, err := c.Run(ctx, j.AgentID, runID); err != nil {
			return err
		}
	} else if j.Follow {
		run, err := latestRun(ctx, c, j.AgentID)
		if err != nil {
			return err
		}
		last = run.ID
	}
	shown := func(e client.Event) bool { return runID == "" || e.RunID == runID }
	var err error
	t := cli.NewTranscript(a.Out)
	t.Output = a.Output
	if a.Out.JSON() {
		err = a.logLines(ctx, c, j, shown, last)
	} else {
		err = a.Transcribe(ctx, t, c, j, func(e client.Event) (bool, bool) {
			return shown(e), j.Follow && t.Ended != nil && t.Ended.RunID == last
		})
	}
	switch {
	case ctx.Err() != nil:
		return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
	case err != nil || !j.Follow || a.Out.JSON():
		return err
	}
	return a.ShowOutcome(j.AgentID, t)
}

// logLines prints the journal's events for which shown returns true as JSON, one per
// line. If it follows the journal, it stops at the end of the run with the id last.
func (a *app) logLines(ctx context.Context, c *client.Client, j command.Journal, shown func(client.Event) bool, last string) error {
	for e, err := range j.Events(ctx, c) {
		if err != nil {
			return err
		}
		if !shown(e) {
			continue
		}
		if err := a.Out.Value(e); err != nil {
			return err
		}
		if j.Follow && e.Kind == "run.ended" && e.RunID == last {
			return nil
		}
	}
	return nil
}
