package agent

import "slices"

type (
	// Queued adds a prompt to the queue. When the current run ends for any reason, the
	// first prompt of the queue starts a run with the given id.
	Queued struct {
		RunID  string `json:"runId"`
		UserID int64  `json:"userId"`
		RunCreated
	}
	// Unqueued removes a prompt from the queue before it has started a run.
	Unqueued struct {
		RunID  string `json:"runId"`
		UserID int64  `json:"userId"`
	}
)

var _ = register(&Queued{}, &Unqueued{})

// Kind implements [Body].
func (*Queued) Kind() string { return "prompt.queued" }

// Kind implements [Body].
func (*Unqueued) Kind() string { return "prompt.unqueued" }

// Waiting is a prompt in an agent's queue.
type Waiting struct {
	RunID string `json:"runId"` // id of the run that the prompt will start
	Seq   int64  `json:"seq"`   // number of the event that contains the prompt
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
