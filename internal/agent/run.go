package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"aloft/internal/allowance"
	"aloft/internal/conversation"
)

// Status is the status of a run.
type Status string

// The statuses of a run.
const (
	Creating  Status = "CREATING"
	Running   Status = "RUNNING"
	Finished  Status = "FINISHED"
	Failed    Status = "ERROR"
	Cancelled Status = "CANCELLED"
	Expired   Status = "EXPIRED"
)

// next lists the possible transitions between statuses. The diagram in
// docs/explain/run-states.md is generated from it.
var next = map[Status][]Status{
	Creating: {Running, Failed, Cancelled, Expired},
	Running:  {Finished, Failed, Cancelled, Expired},
}

// CanBecome reports whether s can be followed by to.
func (s Status) CanBecome(to Status) bool { return slices.Contains(next[s], to) }

// Ended reports whether s is final.
func (s Status) Ended() bool { return len(next[s]) == 0 }

// Run is the work on one prompt, folded from the events with its id.
type Run struct {
	ID        string
	AgentID   string
	Status    Status
	CreatedAt time.Time
	UpdatedAt time.Time
	StartedAt time.Time // zero until it starts
	Ending
	Branches []Branch
	Unhooked []string // why commits and pushes skipped the project's git hooks
	Consumption
	Privacy  *bool // the team's privacy mode when the run started; nil in older journals
	FirstSeq int64 // number of the run's first event
	LastSeq  int64 // number of the run's last event so far
}

// Ending is how a run ended. It is zero until the run ends.
type Ending struct {
	EndedAt  time.Time
	Result   string    // the agent's last message
	Failure  *Failure  // why the run ended in ERROR or EXPIRED
	Outcome  Outcome   // the run's outcome; "" in older journals
	Evidence *Evidence // the facts from which Outcome is derived; nil if there are none
}

// Consumption is the usage of a run so far, and its limit.
type Consumption struct {
	Usage conversation.Usage
	Turns int
	Limit allowance.Amount // the limits at which the run ends
	Clock Clock
}

// Branch is a branch that a run has pushed.
type Branch struct {
	RepoURL string `json:"repoUrl"` // as in the agent's list of repositories
	Branch  string `json:"branch"`
	Commit  string `json:"commit,omitempty"`
}

// Failure says why a run failed, as text for the user.
type Failure struct {
	Code    string `json:"code"`           // model_unauthorized, ref_not_found, …
	Message string `json:"message"`        // the failed step and the reason
	Hint    string `json:"hint,omitempty"` // the advice
}

// Duration returns how long the run took, or has taken until now.
func (r *Run) Duration(now time.Time) time.Duration {
	if !r.EndedAt.IsZero() {
		now = r.EndedAt
	}
	return now.Sub(r.CreatedAt)
}

// Apply folds one event of the run.
func (r *Run) Apply(e Event) {
	r.UpdatedAt, r.LastSeq = e.Time, e.Seq
	r.Clock.apply(e, r.Status)
	switch b := e.Inner().(type) {
	case *RunCreated:
		r.ID, r.Status, r.CreatedAt, r.FirstSeq = e.RunID, Creating, e.Time, e.Seq
	case *RunStarted:
		r.Status, r.StartedAt, r.Limit = Running, e.Time, b.Limit
		r.Privacy = b.Privacy
	case *TurnReplied:
		r.Usage = r.Usage.Add(b.Usage)
		if e.Body == Body(b) { // turns of subagents count only as usage
			r.Turns++
		}
	case *Compacted:
		r.Usage = r.Usage.Add(b.Usage)
	case *Classified:
		r.Usage = r.Usage.Add(b.Usage)
	case *GoalJudged:
		r.Usage = r.Usage.Add(b.Usage)
	case *Titled:
		r.Usage = r.Usage.Add(b.Usage)
	case *ImageGenerated:
		r.Usage = r.Usage.Add(b.Usage)
	case *Committed:
		r.Unhooked = unhooked(r.Unhooked, b.Unhooked)
	case *Pushed:
		r.Unhooked = unhooked(r.Unhooked, b.Unhooked)
		r.Branches = slices.DeleteFunc(r.Branches, func(old Branch) bool { return old.RepoURL == b.RepoURL && old.Branch == b.Branch })
		r.Branches = append(r.Branches, Branch{b.RepoURL, b.Branch, b.Commit})
	case *RunEnded:
		r.Status, r.EndedAt = b.Status, e.Time
		r.Result, r.Failure, r.Outcome, r.Evidence = b.Result, b.Failure, b.Outcome, b.Evidence
	}
}

// unhooked adds a reason for skipping the project's git hooks.
func unhooked(all []string, why string) []string {
	if why == "" || slices.Contains(all, why) {
		return all
	}
	return append(slices.Clip(all), why)
}

func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> CREATING\n")
	for _, from := range slices.Sorted(maps.Keys(next)) {
		for _, to := range next[from] {
			fmt.Fprintf(&b, "    %s --> %s\n", from, to)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
