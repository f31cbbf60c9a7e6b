package main

import (
	"context"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentLogsCommand(a *app) *cobra.Command {
	var follow bool
	var runID string
	cmd := &cobra.Command{
		Use:   "logs AGENT",
		Short: "Show what an agent did",
		Long: `Show what an agent did, from its first run.

With --follow it goes on until the run that works has ended, and then has the
exit code that 'aloft run' would have. With --json it prints the agent's journal,
an event a line.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			return a.logs(cmd.Context(), c, args[0], runID, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run has ended")
	cmd.Flags().StringVar(&runID, "run", "", "only the run of this `id`")
	return cmd
}

func (a *app) logs(ctx context.Context, c *client.Client, agentID, runID string, follow bool) error {
	last := runID // the run whose end is the end
	if runID != "" {
		if _, err := c.Run(ctx, agentID, runID); err != nil {
			return err
		}
	} else if follow {
		run, err := latestRun(ctx, c, agentID)
		if err != nil {
			return err
		}
		last = run.ID
	}
	shown := func(e client.Event) bool { return runID == "" || e.RunID == runID }
	var err error
	t := cli.NewTranscript(a.out)
	if a.out.JSON() {
		err = a.logLines(ctx, c, agentID, follow, shown, last)
	} else {
		err = a.transcribe(ctx, t, c, agentID, follow, func(e client.Event) (bool, bool) {
			return shown(e), follow && t.Ended != nil && t.Ended.RunID == last
		})
	}
	switch {
	case ctx.Err() != nil:
		return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
	case err != nil || !follow || a.out.JSON():
		return err
	}
	return a.outcome(agentID, t)
}

// logLines prints the journal as it is, an event a line.
func (a *app) logLines(ctx context.Context, c *client.Client, agentID string, follow bool, shown func(client.Event) bool, last string) error {
	for e, err := range c.Events(ctx, agentID, 0, follow) {
		if err != nil {
			return err
		}
		if !shown(e) {
			continue
		}
		if err := a.out.Value(e); err != nil {
			return err
		}
		if follow && e.Kind == "run.ended" && e.RunID == last {
			return nil
		}
	}
	return nil
}
