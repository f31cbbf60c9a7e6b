package command

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// ShowIDs prints the IDs of the new agent and run.
func (a *App) ShowIDs(agentID, runID string) {
	a.Out.Line("%s %s", a.Out.Style(cli.Bold, "agent:"), cli.Line(agentID, 80))
	a.Out.Line("%s   %s", a.Out.Style(cli.Bold, "run:"), cli.Line(runID, 80))
}

// AddOutputFlag adds the flag --output to a command that prints an agent's
// work.
func (a *App) AddOutputFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.Output, "output", false, "also print the results of tool calls, such as the output of commands")
}

// WatchNewRun follows the new run, or prints how to follow it.
func (a *App) WatchNewRun(ctx context.Context, c *client.Client, agentID, runID string, follow bool) error {
	if !follow {
		if !a.Out.JSON() {
			a.hints(agentID)
		}
		return nil
	}
	var err error
	if a.Out.JSON() {
		err = a.FollowStream(ctx, c, agentID, runID)
	} else {
		err = a.followRun(ctx, c, agentID, runID)
	}
	if ctx.Err() == nil {
		return err
	}
	if !a.Out.JSON() {
		a.Out.Note("\nStopped watching. The agent keeps running.")
		a.hints(agentID)
	}
	return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
}

// hints prints suggested commands for an agent that is working.
func (a *App) hints(agentID string) {
	a.printHints(agentID, [2]string{"watch it", "logs --follow"}, [2]string{"stop it", "stop"})
}

// endHints prints suggested commands for an agent whose run has ended.
func (a *App) endHints(agentID string, t *cli.Transcript) {
	var rows [][2]string
	if t.Ended.Status == client.Finished || len(t.Branches) > 0 {
		rows = append(rows, [2]string{"see what it changed", "diff"})
	}
	if t.Ended.Status == client.Failed {
		rows = append(rows, [2]string{"try again", "retry"})
	}
	a.printHints(agentID, append(rows, [2]string{"send a follow-up", "follow-up"})...)
}

// printHints prints a line for each row, which consists of a purpose and a
// subcommand of `aloft agent`.
func (a *App) printHints(agentID string, rows ...[2]string) {
	for _, row := range rows {
		line := "aloft agent " + row[1] + " " + cli.Line(agentID, 80)
		if row[1] == "follow-up" {
			line += ` "…"`
		}
		a.Out.Line("%s %s", a.Out.Style(cli.Dim, fmt.Sprintf("%-20s", row[0]+":")), line)
	}
}

// followRun prints a run from its beginning to its end. It returns an error if the run
// did not finish.
func (a *App) followRun(ctx context.Context, c *client.Client, agentID, runID string) error {
	t := cli.NewTranscript(a.Out)
	t.Output = a.Output
	if err := a.Transcribe(ctx, t, c, Journal{AgentID: agentID, Follow: true}, func(e client.Event) (show, end bool) {
		return e.RunID == runID, e.RunID == runID && t.Ended != nil
	}); err != nil {
		return err
	}
	return a.ShowOutcome(agentID, t)
}

// Journal selects a part of an agent's journal.
type Journal struct {
	AgentID string
	Part    client.Part
	Follow  bool // wait for new events; Part.Before must be 0
}

// Events returns the events, in order.
func (j Journal) Events(ctx context.Context, c *client.Client) iter.Seq2[client.Event, error] {
	return c.EventsIn(ctx, j.AgentID, j.Part, j.Follow)
}

// Transcribe prints the journal's events for which choose returns true as its
// first result. It stops after the first event for which choose returns end.
func (a *App) Transcribe(ctx context.Context, t *cli.Transcript, c *client.Client, j Journal, choose func(client.Event) (show, end bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	asker := a.newAsker(ctx, c, j.AgentID, j.Follow)
	var moving sync.WaitGroup
	moving.Go(func() { t.Animate(ctx) })
	defer moving.Wait()
	defer cancel()
	for e, err := range j.Events(ctx, c) {
		if err != nil {
			return err
		}
		show, _ := choose(e)
		if show {
			t.Show(e)
			asker.saw(e)
		}
		if _, end := choose(e); end {
			return nil
		}
	}
	return nil
}

// ShowOutcome prints the result of the run that t has shown, and how to continue.
func (a *App) ShowOutcome(agentID string, t *cli.Transcript) error {
	end := t.Ended
	if end == nil {
		return nil
	}
	for _, b := range t.Branches {
		a.Out.Line("%s %s of %s", a.Out.Style(cli.Dim, fmt.Sprintf("%-20s", "branch:")), a.Out.Style(cli.Green, cli.Line(b.Branch, 200)), cli.Line(b.RepoURL, 200))
	}
	a.endHints(agentID, t)
	switch {
	case end.Status == client.Finished:
		return nil
	case end.Failure != nil:
		return &cli.Problem{Exit: cli.RunFailed, Code: end.Failure.Code, Message: end.Failure.Message, Hint: end.Hint}
	case end.Status == client.Cancelled:
		return &cli.Problem{Exit: cli.RunFailed, Code: "cancelled", Message: "the run was stopped"}
	}
	return &cli.Problem{Exit: cli.RunFailed, Code: strings.ToLower(end.Status), Message: "the run ended as " + end.Status}
}

// FollowStream prints a run's public event stream, one event per line. The
// format is part of the API, so it is stable.
func (a *App) FollowStream(ctx context.Context, c *client.Client, agentID, runID string) error {
	var result struct {
		Status string `json:"status"`
	}
	failure := client.Failure{Message: "the run did not finish"}
	for e, err := range c.Stream(ctx, agentID, runID, "") {
		if err != nil {
			return err
		}
		switch e.Event {
		case "result":
			_ = json.Unmarshal(e.Data, &result) // an empty status counts as a failure
		case "error":
			_ = json.Unmarshal(e.Data, &failure) // on an error, keep the default message
		}
		if err := a.Out.Value(e); err != nil {
			return err
		}
	}
	if result.Status == client.Finished {
		return nil
	}
	if failure.Code == "" {
		failure.Code = strings.ToLower(result.Status)
	}
	return &cli.Problem{Exit: cli.RunFailed, Code: failure.Code, Message: failure.Message}
}

// PrintColorDiff prints a diff in color.
func (a *App) PrintColorDiff(diff string) {
	for line := range strings.Lines(cli.Exact(diff)) {
		a.Out.Line("%s", a.Out.DiffLine(strings.TrimSuffix(line, "\n")))
	}
}
