package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
)

// frames are a browser's measurements of a page's frames: frames per second, 95th
// percentile of the frame time in milliseconds, share of late frames, and main-thread
// milliseconds per frame.
type frames struct{ Rate, P95, Late, Work float64 }

// seen are the results of web/test/perf.ts in milliseconds, except FirstLoad in bytes.
// Yardstick has the baseline of each result.
type seen struct {
	FirstLoad                  int64
	FirstAgent, Opens          float64
	List, Conversation, Scroll frames
	Yardstick                  struct {
		FirstAgent, Opens          float64
		List, Conversation, Scroll frames
	}
}

// dashboard measures the dashboard in a browser: first with a server that has 5,000
// agents, then its frame rate on demo data in which twenty agents write at once.
func dashboard() (rows []row, err error) {
	fmt.Fprintln(os.Stderr, "measuring the dashboard")
	dir, err := os.MkdirTemp("", "aloft-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := fill(filepath.Join(dir, "data"), 5_000); err != nil {
		return nil, err
	}
	long, err := write(filepath.Join(dir, "data"), 10_000)
	if err != nil {
		return nil, err
	}
	short, err := write(filepath.Join(dir, "data"), 10)
	if err != nil {
		return nil, err
	}
	s, err := serve(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	out := filepath.Join(dir, "figures.json")
	browser := exec.Command("npm", "run", "--silent", "--prefix", "web", "perf", "--", "-t", "how fast")
	browser.Env = append(os.Environ(), "ALOFT_URL="+s.url, "ALOFT_API_KEY="+s.key, "LONG_AGENT="+long, "SHORT_AGENT="+short, "FIGURES="+out)
	if text, err := browser.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm run perf: %w\n%s", err, text)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, err
	}
	var f seen
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	return f.rows(), nil
}

func (f seen) rows() []row {
	const each = 1e6 // nanoseconds per millisecond
	rows := []row{
		{"dashboard: first load, compressed", fmt.Sprintf("%.0f KiB", float64(f.FirstLoad)/(1<<10)), "", "", "≤ 300 KiB"},
		{"the first agent is seen, nothing kept", ms(f.FirstAgent * each), ms(f.Yardstick.FirstAgent * each), times(f.FirstAgent, f.Yardstick.FirstAgent) + " a picture of 1 kB", "≤ 300 ms"},
		{"an agent of 10,000 events opens, at its end", ms(f.Opens * each), ms(f.Yardstick.Opens * each), times(f.Opens, f.Yardstick.Opens) + " one of 10", "≤ 1 s"},
	}
	watched := func(work, than string, ours, yardstick frames) {
		rows = append(rows,
			row{work, fmt.Sprintf("%.1f/s", ours.Rate), fmt.Sprintf("%.1f/s", yardstick.Rate), times(ours.Rate, yardstick.Rate) + " " + than, "60/s"},
			row{"the same, 95 of 100 frames within", ms(ours.P95 * each), ms(yardstick.P95 * each), fmt.Sprintf("%.1f%% late, %.1f%% of %s", ours.Late*100, yardstick.Late*100, than), "≤ 16.7 ms"},
			row{"the same, the page's thread for each", ms(ours.Work * each), ms(yardstick.Work * each), times(ours.Work, yardstick.Work) + " " + than, "≤ 16.7 ms"})
	}
	watched("frames of the list, 20 agents at work", "one at rest", f.List, f.Yardstick.List)
	watched("frames of an agent that writes and runs", "one at rest", f.Conversation, f.Yardstick.Conversation)
	watched("frames of 5,000 agents, scrolled", "plain lines", f.Scroll, f.Yardstick.Scroll)
	return rows
}

// write stores a finished agent with a journal of n events.
func write(dir string, n int) (string, error) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	id, run, zero := agent.NewID(), agent.NewRunID(), int64(0)
	events := []agent.Event{
		{Body: &agent.Created{Name: fmt.Sprintf("%d events", n), UserID: 1, Env: agent.Env{Type: "cloud"}}},
		{RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Go on.")}},
	}
	for i := 0; len(events) < n-1; i++ {
		text := fmt.Sprintf("Looking at file **%d**, which has `%d` lines.", i, i*7)
		events = append(events, agent.Event{RunID: run, Body: &agent.TextDelta{Text: text}},
			agent.Event{RunID: run, Body: &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, text), Model: "scripted"}})
	}
	events = append(events, agent.Event{RunID: run, Body: &agent.RunEnded{Status: agent.Finished}})
	_, err = s.Append(ctx, store.Append{AgentID: id, IfHead: &zero, Events: events})
	return id, errors.Join(err, s.Close())
}
