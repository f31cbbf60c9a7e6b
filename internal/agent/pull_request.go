package agent

import (
	"slices"
	"time"
)

// PullRequestOptions holds the pull request options from the request that created an
// agent.
type PullRequestOptions struct {
	Auto          bool `json:"auto,omitempty"`          // open a pull request after a run that has pushed
	Draft         bool `json:"draft,omitempty"`         // as a draft
	SkipReviewers bool `json:"skipReviewers,omitempty"` // request no reviewers
	AsApp         bool `json:"asApp,omitempty"`         // open the pull request as the configured GitHub App
}

// PullRequest is the pull request of one of an agent's branches, according to
// the journal.
type PullRequest struct {
	RepoURL string `json:"repoUrl"` // as in the agent's list of repositories
	Branch  string `json:"branch"`
	Base    string `json:"base,omitempty"`
	URL     string `json:"url,omitempty"` // for a browser; "" if the pull request does not exist yet
	Number  int64  `json:"number,omitempty"`
	Title   string `json:"title,omitempty"` // as last set by the agent; may have been edited at the forge
	Body    string `json:"body,omitempty"`  // as last set by the agent; may have been edited at the forge
	Draft   bool   `json:"draft,omitempty"`
	State   string `json:"state,omitempty"` // open, closed or merged, as last seen
	// Failure is why the last attempt to open or change the pull request failed, or nil.
	Failure *Failure `json:"failure,omitempty"`
	// ReviewFailure is why the last request for reviewers failed, or nil. When a run or a
	// person next opens or changes the pull request, reviewers are requested again.
	ReviewFailure *Failure `json:"reviewFailure,omitempty"`
}

// Values of [PullRequestAsked].By: who requested the pull request.
const (
	PullByRun    = "run"    // the end of a run, according to the agent's options
	PullByTool   = "tool"   // the model, with a tool call
	PullByPerson = "person" // a person
)

// PullReads reports whether an action of the tool PrManagement is read-only.
func PullReads(action string) bool {
	switch action {
	case "PR_ACTION_COMMENTS", "PR_ACTION_REVIEWS", "PR_ACTION_THREADS", "PR_ACTION_CHECKS", "PR_ACTION_LOG", "PR_ACTION_WAIT_CHECKS", "PR_ACTION_WAIT_REPLY":
		return true
	}
	return false
}

// CodeNoChanges is the failure code when there is nothing to merge.
const CodeNoChanges = "no_changes"

type (
	// PullRequestFound records for which pull request the agent was started. The agent
	// starts from that pull request's branch.
	PullRequestFound struct {
		PullRequest PullRequest `json:"pullRequest"`
	}
	// PullRequestAsked is journaled before a forge is asked to open or change a
	// pull request, so that after a crash the same request is repeated.
	PullRequestAsked struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"`
		Commit  string `json:"commit,omitempty"` // the branch's commit
		Base    string `json:"base"`
		Title   string `json:"title"`
		Body    string `json:"body"`
		Draft   bool   `json:"draft,omitempty"`
		By      string `json:"by"`
		CallID  string `json:"callId,omitempty"` // for PullByTool
		UserID  int64  `json:"userId,omitempty"` // for PullByPerson
		// Force overwrites the title and the body even if somebody else has
		// edited them.
		Force bool `json:"force,omitempty"`
	}
	// PullRequestOpened records that the pull request exists on the forge.
	PullRequestOpened struct {
		By          string      `json:"by"`
		Made        bool        `json:"made,omitempty"` // newly created
		PullRequest PullRequest `json:"pullRequest"`
	}
	// PullRequestFailed records that a pull request was not opened or changed,
	// and why. The branch is pushed nevertheless.
	PullRequestFailed struct {
		RepoURL string  `json:"repoUrl"`
		Branch  string  `json:"branch"`
		By      string  `json:"by"`
		Failure Failure `json:"failure"`
	}
	// PullRequestSaid is journaled before a forge is asked to add a comment that the model
	// wrote. The comment contains Key, so that a retry after a crash finds a comment that
	// was added already.
	PullRequestSaid struct {
		CallID   string `json:"callId"`
		URL      string `json:"url"`                // URL of the pull request
		ThreadID string `json:"threadId,omitempty"` // "" for a comment on the pull request itself
		Body     string `json:"body"`               // without the key
		Key      string `json:"key"`
	}
	// PullRequestAwaited is journaled before the agent waits for checks or for a
	// reply, so that the wait ends at the same time if another server continues
	// it.
	PullRequestAwaited struct {
		CallID string    `json:"callId"`
		URL    string    `json:"url"`
		Commit string    `json:"commit,omitempty"` // commit whose checks the agent waits for
		After  time.Time `json:"after,omitzero"`   // the agent waits for replies written later, by the forge's clock
		Until  time.Time `json:"until"`
	}
	// PullRequestSeen records a change of a pull request's state on its forge.
	PullRequestSeen struct {
		URL   string `json:"url"`
		State string `json:"state"`
		Title string `json:"title"`
		Draft bool   `json:"draft,omitempty"`
	}
	// PullRequestHeard records which comments and checks of the agent's pull request the
	// server has acted on, so that it acts on each only once. If they start a run, the
	// event is appended together with the run's first event.
	PullRequestHeard struct {
		URL string `json:"url"`
		// Comments are the ids of the comments that the run's prompt contains.
		Comments []string `json:"comments,omitempty"`
		// Ignored are the comments for which no run was started.
		Ignored []IgnoredComment `json:"ignored,omitempty"`
		// Threads are the ids of the review threads that get a reply when the run
		// has ended.
		Threads []string `json:"threads,omitempty"`
		// Fix is the commit whose failed checks the run must fix, and Checks are the names of
		// these checks.
		Fix    string   `json:"fix,omitempty"`
		Checks []string `json:"checks,omitempty"`
		// Stopped says why the agent no longer fixes failed checks of the pull request.
		Stopped string `json:"stopped,omitempty"`
		// Answered is the run whose result was added to the pull request's review threads.
		Answered string `json:"answered,omitempty"`
	}
	// IgnoredComment is a comment for which no run was started.
	IgnoredComment struct {
		ID     string `json:"id"`
		Author string `json:"author,omitempty"`
		Reason string `json:"reason"`
	}
)

// Values of [RunCreated.By] for runs that the server has created.
const (
	ByPullRequest = "pull_request" // comments or checks of the agent's pull request
	ByMention     = "mention"      // a comment or an issue that mentions the server's handle
	ByEvent       = "event"        // an automation that events start
)

var _ = register(&PullRequestFound{}, &PullRequestAsked{}, &PullRequestOpened{}, &PullRequestFailed{}, &PullRequestSeen{}, &PullRequestSaid{}, &PullRequestAwaited{}, &PullRequestHeard{})

// Kind implements [Body].
func (*PullRequestFound) Kind() string { return "pull_request.found" }

// Kind implements [Body].
func (*PullRequestAsked) Kind() string { return "pull_request.asked" }

// Kind implements [Body].
func (*PullRequestOpened) Kind() string { return "pull_request.opened" }

// Kind implements [Body].
func (*PullRequestFailed) Kind() string { return "pull_request.failed" }

// Kind implements [Body].
func (*PullRequestSaid) Kind() string { return "pull_request.said" }

// Kind implements [Body].
func (*PullRequestAwaited) Kind() string { return "pull_request.awaited" }

// Kind implements [Body].
func (*PullRequestSeen) Kind() string { return "pull_request.seen" }

func (*PullRequestSeen) housekeeping()  {}
func (*PullRequestHeard) housekeeping() {}

// Kind implements [Body].
func (*PullRequestHeard) Kind() string { return "pull_request.heard" }

// A Proposal is a pull request that was requested when a run ended.
type Proposal struct {
	Asked *PullRequestAsked // nil if nothing was requested
	Over  bool              // the forge has answered
}

// PullRequest returns the pull request of a branch, or nil if none is known.
func (a *Agent) PullRequest(repoURL, branch string) *PullRequest {
	i := slices.IndexFunc(a.PullRequests, func(p PullRequest) bool { return p.RepoURL == repoURL && p.Branch == branch })
	if i < 0 {
		return nil
	}
	return &a.PullRequests[i]
}

// startAt sets the starting ref of the repository at url.
func (a *Agent) startAt(url, ref string) {
	a.Repos = slices.Clone(a.Repos)
	for i := range a.Repos {
		if r := &a.Repos[i]; r.URL == url {
			r.StartingRef, r.TeamBase = ref, false
		}
	}
}

// pull folds one event into the pull requests.
func (a *Agent) pull(e Event) {
	switch b := e.Body.(type) {
	case *PullRequestFound:
		a.putPull(b.PullRequest)
		a.startAt(b.PullRequest.RepoURL, b.PullRequest.Branch)
	case *PullRequestOpened:
		a.putPull(b.PullRequest)
	case *PullRequestFailed:
		failure := b.Failure
		one := PullRequest{RepoURL: b.RepoURL, Branch: b.Branch}
		if was := a.PullRequest(b.RepoURL, b.Branch); was != nil {
			one = *was
		}
		one.Failure = &failure
		a.putPull(one)
	case *PullRequestSeen:
		for _, p := range a.PullRequests {
			if p.URL == b.URL {
				p.State, p.Title, p.Draft = b.State, b.Title, b.Draft
				a.putPull(p)
			}
		}
	}
}

// putPull adds or replaces a pull request. It does not modify the slice, which copies of
// the agent share.
func (a *Agent) putPull(p PullRequest) {
	all := slices.Clone(a.PullRequests)
	i := slices.IndexFunc(all, func(o PullRequest) bool { return o.RepoURL == p.RepoURL && o.Branch == p.Branch })
	if i < 0 {
		all = append(all, p)
	} else {
		all[i] = p
	}
	a.PullRequests = all
}

// proposed folds one event into the pull requests that were requested when the
// run ended.
func (s *State) proposed(e Event) {
	switch b := e.Body.(type) {
	case *RunCreated:
		s.proposals = nil
	case *PullRequestAsked:
		if b.By == PullByRun {
			s.propose(b.RepoURL, Proposal{Asked: b})
		}
	case *PullRequestOpened:
		if b.By == PullByRun {
			s.propose(b.PullRequest.RepoURL, Proposal{Over: true})
		}
	case *PullRequestFailed:
		if b.By == PullByRun {
			s.propose(b.RepoURL, Proposal{Over: true})
		}
	}
}

func (s *State) propose(repoURL string, p Proposal) {
	all := make(map[string]Proposal, len(s.proposals)+1)
	for url, other := range s.proposals {
		all[url] = other
	}
	all[repoURL] = p
	s.proposals = all
}

// Proposal returns the pull request for a repository that was requested when
// this run ended.
func (s *State) Proposal(repoURL string) Proposal { return s.proposals[repoURL] }
