package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// showIDs prints the IDs of the new agent and run.
func (a *app) showIDs(agentID, runID string) {
	a.out.Line("%s %s", a.out.Style(cli.Bold, "agent:"), cli.Line(agentID, 80))
	a.out.Line("%s   %s", a.out.Style(cli.Bold, "run:"), cli.Line(runID, 80))
}

// outputFlag adds the flag --output to a command that prints what an agent does.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.output, "output", false, "also print the results of tool calls, such as the output of commands")
}

// started follows the new run, or prints how to follow it.
func (a *app) started(ctx context.Context, c *client.Client, agentID, runID string, follow bool) error {
	if !follow {
		if !a.out.JSON() {
			a.hints(agentID, true)
		}
		return nil
	}
	var err error
	if a.out.JSON() {
		err = a.followStream(ctx, c, agentID, runID)
	} else {
		err = a.followRun(ctx, c, agentID, runID)
	}
	if ctx.Err() == nil {
		return err
	}
	if !a.out.JSON() {
		a.out.Note("\nStopped watching. The agent keeps running.")
		a.hints(agentID, true)
	}
	return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
}

// hints prints commands for the agent: for a running one if works is set, and for a
// finished one otherwise.
func (a *app) hints(agentID string, works bool) {
	id := cli.Line(agentID, 80)
	rows := [][2]string{{"see what it changed", "aloft agent diff " + id}, {"send a follow-up", `aloft agent follow-up ` + id + ` "…"`}}
	if works {
		rows = [][2]string{{"watch it", "aloft agent logs --follow " + id}, {"stop it", "aloft agent stop " + id}}
	}
	for _, row := range rows {
		a.out.Line("%s %s", a.out.Style(cli.Dim, fmt.Sprintf("%-20s", row[0]+":")), row[1])
	}
}

// followRun prints a run from its beginning to its end. It returns an error if the run
// did not finish.
func (a *app) followRun(ctx context.Context, c *client.Client, agentID, runID string) error {
	t := cli.NewTranscript(a.out)
	t.Output = a.output
	if err := a.transcribe(ctx, t, c, agentID, client.Part{}, true, func(e client.Event) (show, end bool) {
		return e.RunID == runID, e.RunID == runID && t.Ended != nil
	}); err != nil {
		return err
	}
	return a.outcome(agentID, t)
}

// transcribe prints the journal's events that choose selects. It stops after the first
// event for which choose returns end.
func (a *app) transcribe(ctx context.Context, t *cli.Transcript, c *client.Client, agentID string, part client.Part, follow bool, choose func(client.Event) (show, end bool)) error {
	ctx, cancel := context.WithCancel(ctx)
	asker := a.newAsker(ctx, c, agentID, follow)
	var moving sync.WaitGroup
	moving.Go(func() { t.Animate(ctx) })
	defer moving.Wait()
	defer cancel()
	for e, err := range c.EventsIn(ctx, agentID, part, follow) {
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

// outcome prints the result of the run that t has shown, and how to continue.
func (a *app) outcome(agentID string, t *cli.Transcript) error {
	end := t.Ended
	if end == nil {
		return nil
	}
	for _, b := range t.Branches {
		a.out.Line("%s %s of %s", a.out.Style(cli.Dim, fmt.Sprintf("%-20s", "branch:")), a.out.Style(cli.Green, cli.Line(b.Branch, 200)), cli.Line(b.RepoURL, 200))
	}
	a.hints(agentID, false)
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

// followStream prints a run's public event stream, one event per line. Its format is
// part of the API and stable.
func (a *app) followStream(ctx context.Context, c *client.Client, agentID, runID string) error {
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
			_ = json.Unmarshal(e.Data, &failure) // keep the default message
		}
		if err := a.out.Value(e); err != nil {
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
