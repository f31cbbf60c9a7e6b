// Package proof decides whether a run has proven its work: by the run's checks,
// by the judgement of its goal, and by its todo list. The package keeps no
// state.
package proof

import (
	"slices"

	"aloft/internal/agent"
)

// NoProgress is the error code of a run that ends because its model repeats a
// call after a warning.
const NoProgress = "no_progress"

// Outcome returns how a run ended, and the evidence for it.
func Outcome(s *agent.State, ended *agent.RunEnded) (agent.Outcome, *agent.Evidence) {
	evidence := s.Evidence()
	switch {
	case ended.Status == agent.Cancelled:
		return "", evidence
	case ended.Status == agent.Expired:
		return agent.AtLimit, evidence
	case ended.Failure != nil && ended.Failure.Code == NoProgress:
		return agent.GaveUp, evidence
	case ended.Status == agent.Failed:
		return agent.Blocked, evidence
	case leftOpen(s) == agent.GaveUp:
		return agent.GaveUp, evidence
	case evidence == nil && leftOpen(s) != "":
		return leftOpen(s), nil
	case evidence == nil:
		return agent.Done, nil
	case stuck(s), s.Judging.Stuck:
		return agent.GaveUp, evidence
	case len(failed(evidence.Checks)) > 0, evidence.Stale, leftOpen(s) != "":
		return agent.Partly, evidence
	case evidence.Goal != nil && evidence.Goal.Failure != "":
		return agent.Blocked, evidence
	case evidence.Goal != nil && !evidence.Goal.Met:
		return agent.Partly, evidence
	case slices.ContainsFunc(evidence.Checks, func(r agent.CheckResult) bool { return r.State != agent.CheckPassed }):
		return agent.Blocked, evidence
	}
	return agent.Done, evidence
}

// leftOpen returns the outcome of a run that works in rounds and ends with open
// todo items, or "" if no item is open.
func leftOpen(s *agent.State) agent.Outcome {
	open := agent.OpenTodos(s.Todos)
	switch {
	case !s.Grinding.On || len(open) == 0:
		return ""
	case s.Grinding.Closed(open):
		return agent.Partly
	}
	return agent.GaveUp
}
