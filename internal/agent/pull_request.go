package agent

import "slices"

// PullRequestOptions is what an agent's person wants of pull requests.
type PullRequestOptions struct {
	Auto          bool `json:"auto,omitempty"`          // open one when a run has pushed something
	Draft         bool `json:"draft,omitempty"`         // as a draft
	SkipReviewers bool `json:"skipReviewers,omitempty"` // ask nobody to review it
	AsApp         bool `json:"asApp,omitempty"`         // open it as the GitHub App of the configuration
}

// PullRequest is one of an agent's branches at its forge, as far as the journal
// knows.
type PullRequest struct {
	RepoURL string `json:"repoUrl"` // as the agent's repository has it
	Branch  string `json:"branch"`
	Base    string `json:"base,omitempty"`
	URL     string `json:"url,omitempty"` // for a browser; "" while there is none
	Number  int64  `json:"number,omitempty"`
	Title   string `json:"title,omitempty"` // as it was given last; a person may have changed it at the forge
	Body    string `json:"body,omitempty"`  // likewise
	Draft   bool   `json:"draft,omitempty"`
	State   string `json:"state,omitempty"` // open, closed or merged, as it was seen last
	// Failure is why it was not opened, or not changed, when that was tried last.
	Failure *Failure `json:"failure,omitempty"`
	// ReviewFailure is why nobody could be asked to review it when that was tried
	// last. The next run, or a person, that opens or changes it tries again.
	ReviewFailure *Failure `json:"reviewFailure,omitempty"`
}

// Who asks for a pull request, as [PullRequestAsked] has it.
const (
	PullByRun    = "run"    // the end of a run, as the agent's person has wished
	PullByTool   = "tool"   // the model, by a call
	PullByPerson = "person" // by hand
)

// CodeNoChanges is the code of the failure that there is nothing to merge.
const CodeNoChanges = "no_changes"

type (
	// PullRequestFound says on which pull request the agent was started: it begins
	// with that branch.
	PullRequestFound struct {
		PullRequest PullRequest `json:"pullRequest"`
	}
	// PullRequestAsked comes before a forge is asked to open a pull request, or to
	// change the one there is: it is asked the same after a crash.
	PullRequestAsked struct {
		RepoURL string `json:"repoUrl"`
		Branch  string `json:"branch"`
		Commit  string `json:"commit,omitempty"` // that the branch is at
		Base    string `json:"base"`
		Title   string `json:"title"`
		Body    string `json:"body"`
		Draft   bool   `json:"draft,omitempty"`
		By      string `json:"by"`
		CallID  string `json:"callId,omitempty"` // of PullByTool
		UserID  int64  `json:"userId,omitempty"` // of PullByPerson
		// Force changes the title and the body also where somebody else has, since.
		Force bool `json:"force,omitempty"`
	}
	// PullRequestOpened is the forge's answer: the pull request is there.
	PullRequestOpened struct {
		By          string      `json:"by"`
		Made        bool        `json:"made,omitempty"` // it was not there before
		PullRequest PullRequest `json:"pullRequest"`
	}
	// PullRequestFailed says that there is none, or that it was not changed, and why.
	// The work is on its branch.
	PullRequestFailed struct {
		RepoURL string  `json:"repoUrl"`
		Branch  string  `json:"branch"`
		By      string  `json:"by"`
		Failure Failure `json:"failure"`
	}
	// PullRequestSeen says how a pull request stands at its forge, where that is
	// other than the journal had it.
	PullRequestSeen struct {
		URL   string `json:"url"`
		State string `json:"state"`
		Title string `json:"title"`
		Draft bool   `json:"draft,omitempty"`
	}
)

// Kind implements [Body].
func (*PullRequestFound) Kind() string { return "pull_request.found" }

// Kind implements [Body].
func (*PullRequestAsked) Kind() string { return "pull_request.asked" }

// Kind implements [Body].
func (*PullRequestOpened) Kind() string { return "pull_request.opened" }

// Kind implements [Body].
func (*PullRequestFailed) Kind() string { return "pull_request.failed" }

// Kind implements [Body].
func (*PullRequestSeen) Kind() string { return "pull_request.seen" }

// A Proposal is what the end of a run asks of a forge.
type Proposal struct {
	Asked *PullRequestAsked // nil where there was nothing to ask
	Over  bool              // it is answered
}

// PullRequest is that of a branch of a repository; nil if nothing is known of one.
func (a *Agent) PullRequest(repoURL, branch string) *PullRequest {
	i := slices.IndexFunc(a.PullRequests, func(p PullRequest) bool { return p.RepoURL == repoURL && p.Branch == branch })
	if i < 0 {
		return nil
	}
	return &a.PullRequests[i]
}

// startAt makes ref the starting ref of the repository at url.
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

// putPull puts one in its place. What others hold of the list is left as it is.
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

// proposed folds one event into what the end of the run has asked for.
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

// Proposal is what the end of this run has asked for in a repository.
func (s *State) Proposal(repoURL string) Proposal { return s.proposals[repoURL] }
