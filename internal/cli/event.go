package cli

import (
	"aloft/internal/agent"
	"aloft/internal/client"
)

// ApprovalOf converts the approval request of an event to the API's form. AgentID is
// empty, because events do not contain it.
func ApprovalOf(q agent.Approval) client.Approval {
	out := client.Approval{
		ID: q.ID, RunID: q.RunID, CallID: q.CallID, Tool: q.Tool, Subject: q.Subject, Subagent: q.By, Folder: q.Folder,
		Reason: q.Reason, Why: q.Why, Entries: q.Entries, Change: q.Change, AskedAt: q.AskedAt,
	}
	if !q.Until.IsZero() {
		out.Until = &q.Until
	}
	for _, of := range q.Questions {
		one := client.Question{ID: of.ID, Prompt: of.Prompt, AllowMultiple: of.AllowMultiple}
		for _, o := range of.Options {
			one.Options = append(one.Options, client.Option(o))
		}
		out.Questions = append(out.Questions, one)
	}
	return out
}

// evidenceOf returns the evidence from an event in the form of the API.
func evidenceOf(e *agent.Evidence) *client.Evidence {
	if e == nil {
		return nil
	}
	out := &client.Evidence{Goal: (*client.GoalVerdict)(e.Goal), Rounds: e.Rounds, Stale: e.Stale}
	for _, r := range e.Checks {
		out.Checks = append(out.Checks, checkOf(r))
	}
	for _, b := range e.Bugfixes {
		out.Bugfixes = append(out.Bugfixes, client.Bugfix(b))
	}
	return out
}

// checkOf returns the result of a check from an event in the form of the API.
func checkOf(r agent.CheckResult) client.CheckResult {
	return client.CheckResult{Command: r.Command, State: string(r.State), ExitCode: r.ExitCode, DurationMS: r.DurationMS, Output: r.Output}
}
