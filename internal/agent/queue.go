package agent

import "slices"

type (
	// Queued puts a prompt behind the run that is worked now. When that has ended,
	// however it ended, the first of the queue begins a run of the id.
	Queued struct {
		RunID  string `json:"runId"`
		UserID int64  `json:"userId"`
		RunCreated
	}
	// Unqueued takes a prompt back that has not begun a run.
	Unqueued struct {
		RunID  string `json:"runId"`
		UserID int64  `json:"userId"`
	}
)

// Kind implements [Body].
func (*Queued) Kind() string { return "prompt.queued" }

// Kind implements [Body].
func (*Unqueued) Kind() string { return "prompt.unqueued" }

// Waiting is a prompt in an agent's queue.
type Waiting struct {
	RunID string `json:"runId"` // of the run that it will begin
	Seq   int64  `json:"seq"`   // of the event that holds it
}

// queue folds one event into the queue.
func (a *Agent) queue(e Event) {
	gone := ""
	switch b := e.Body.(type) {
	case *Queued:
		a.Queue = append(slices.Clip(a.Queue), Waiting{b.RunID, e.Seq})
	case *Unqueued:
		gone = b.RunID
	case *RunCreated:
		gone = e.RunID
	}
	if gone != "" && a.Waits(gone) {
		a.Queue = slices.DeleteFunc(slices.Clone(a.Queue), func(w Waiting) bool { return w.RunID == gone })
	}
}

// Waits reports whether the prompt of a run is in the queue.
func (a *Agent) Waits(runID string) bool {
	return slices.ContainsFunc(a.Queue, func(w Waiting) bool { return w.RunID == runID })
}
