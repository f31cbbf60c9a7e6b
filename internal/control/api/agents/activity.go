package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/store"
)

const (
	maxActivity    = 120 // runes
	activityEvents = 20  // how many of the newest events are searched
)

// addRun adds the status of the agent's latest run, and the run's current
// activity unless hidden.
func (s *API) addRun(ctx context.Context, out *AgentSummary, a agent.Agent, hidden bool) error {
	if a.LatestRunID == "" {
		return nil
	}
	run, err := s.Agents.Run(ctx, a.ID, a.LatestRunID)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the run was deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", a.LatestRunID, err)
	}
	out.RunStatus = string(run.Status)
	out.Limits, out.Used = modelchoice.LimitsOf(run)
	switch {
	case hidden: // the activity may name files or contain code
	case run.Failure != nil:
		out.Doing = brief(run.Failure.Message)
	case !run.Status.Ended():
		events, err := s.Journal.Read(ctx, a.ID, max(a.Head-activityEvents, 0), activityEvents)
		if err != nil {
			return fmt.Errorf("read the journal of %s: %w", a.ID, err)
		}
		out.Doing = activityOf(events)
	}
	return nil
}

// activityOf describes an agent's current activity from its newest events. It
// returns "" if they do not show any.
func activityOf(events []agent.Event) string {
	for _, e := range slices.Backward(events) {
		switch b := e.Body.(type) {
		case *agent.ChecksBegan:
			return "running checks"
		case *agent.ChecksEnded:
			return ""
		case *agent.Within:
			if b.CallID == agent.ChecksThread {
				continue
			}
			if what := activityOf([]agent.Event{{Body: b.Body}}); what != "" {
				return brief("a subagent: " + what)
			}
		case *agent.TaskBegan:
			return brief("a subagent: " + b.Description)
		case *agent.BootStep:
			return brief("starting the machine: " + b.Name)
		case *agent.TextDelta:
			return "writing"
		case *agent.ThinkingDelta:
			return "thinking"
		case *agent.ModelRetry:
			return brief("asking the model again: " + b.Message)
		case *agent.ApprovalAsked:
			return brief(b.Approval.Tool + " " + b.Approval.Subject)
		case *agent.TurnReplied:
			if calls := b.Message.Calls(); len(calls) > 0 {
				return brief(calls[0].Name + " " + subject(calls[0].Args))
			}
		case *agent.CallDone, *agent.MachineReady:
			// look at the previous reply; if nothing is found, the agent is
			// thinking
		}
	}
	return ""
}

// subject returns the argument that best describes a call, such as its path or
// its command.
func subject(args json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(args, &all) != nil {
		return ""
	}
	for _, name := range []string{"description", "command", "pattern", "glob_pattern", "path", "target_notebook", "query", "url"} {
		var text string
		if json.Unmarshal(all[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// brief returns the text on one line, cut to maxActivity runes.
func brief(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if r := []rune(text); len(r) > maxActivity {
		text = string(r[:maxActivity-1]) + "…"
	}
	return text
}
