package follow

import (
	"context"

	"aloft/internal/agent"
)

// history is the part of an agent's journal that concerns one of its pull
// requests.
type history struct {
	head    int64           // number of the last event
	handled map[string]bool // ids of comments
	tries   []agent.PullRequestHeard
	runs    []string // runs of tries
	stopped string   // why failed checks are no longer fixed
	pushed  []string // commits that the agent has pushed to the branch, oldest first
	person  bool     // whether a person has sent a prompt since the first try
	// threads are the review threads that wait for the end of a run, by run.
	threads map[string][]string
	replied map[string]bool // thread ids that the agent itself has replied to, after the id of the run
}

const readBatch = 1000

// history reads the agent's journal.
func (d *Desk) history(ctx context.Context, agentID, url, repoURL, branch string) (history, error) {
	h := history{handled: map[string]bool{}, threads: map[string][]string{}, replied: map[string]bool{}}
	for {
		events, err := d.Journal.Read(ctx, agentID, h.head, readBatch)
		if err != nil {
			return h, err
		}
		for _, e := range events {
			h.apply(e, url, repoURL, branch)
		}
		if len(events) < readBatch {
			return h, nil
		}
	}
}

func (h *history) apply(e agent.Event, url, repoURL, branch string) {
	h.head = e.Seq
	switch b := e.Body.(type) {
	case *agent.RunCreated:
		h.person = h.person || b.By != agent.ByPullRequest && len(h.tries) > 0
	case *agent.PullRequestSaid:
		if b.URL == url && b.ThreadID != "" {
			h.replied[e.RunID+" "+b.ThreadID] = true
		}
	case *agent.Pushed:
		if b.RepoURL == repoURL && b.Branch == branch {
			h.pushed = append(h.pushed, b.Commit)
		}
	case *agent.PullRequestHeard:
		if b.URL == url {
			h.hear(e.RunID, *b)
		}
	}
}

func (h *history) hear(runID string, b agent.PullRequestHeard) {
	for _, id := range b.Comments {
		h.handled[id] = true
	}
	for _, c := range b.Ignored {
		h.handled[c.ID] = true
	}
	if len(b.Threads) > 0 {
		h.threads[runID] = b.Threads
	}
	delete(h.threads, b.Answered)
	if b.Fix != "" {
		h.tries, h.runs = append(h.tries, b), append(h.runs, runID)
	}
	if b.Stopped != "" {
		h.stopped = b.Stopped
	}
}

// try returns the last try to fix the commit, or nil.
func (h *history) try(commit string) *agent.PullRequestHeard {
	for i := range h.tries {
		if h.tries[i].Fix == commit {
			return &h.tries[i]
		}
	}
	return nil
}
