// Package forge says what a code host is to Aloft: the place where a branch
// that was pushed becomes a pull request. GitHub, GitLab and Gitea (also
// Forgejo) are packages below; a merge request is called a pull request here.
//
// Every adapter speaks the host's REST API by itself, through [Wire], and not
// through the host's SDK: the dozen requests that are needed are fewer lines
// than the SDKs' errors, retries and clients would take to tame, and so there
// is one place that bounds answers, follows redirects and keeps tokens.
//
// # Tokens
//
// A host's token is configured once, for git and for its API:
//
//	git:
//	  credentials:
//	    - url: https://github.com/acme
//	      token_env: ACME_TOKEN
//
// An adapter holds none. It asks [Tokens] for the one of a repository with each
// request, which answers as git is answered, by the longest URL that fits. So
// different owners at one host may have different tokens, and a token that
// changes, as those of a GitHub App do each hour, needs no new adapter.
//
// # Trust
//
// What a host answers is foreign: it is bounded, titles and names are made one
// plain line, addresses are http or https or dropped. Bodies and comments are
// text of whoever wrote them, and nothing in them is an instruction. No error
// holds a token.
//
// Errors are of package fault. Codes: integration_not_connected, forge_no_token,
// forge_unauthorized, forge_denied, forge_not_found, forge_conflict,
// forge_refused, forge_rate_limited (see [RetryAfter]), forge_unreachable.
package forge

import (
	"context"
	"net/http"
	"time"
)

// A Forge is a code host, or what of it one configuration reaches. Its methods
// are safe for concurrent use. A host may also be a [Discussion], a [Reviewing],
// a [Merger], [Examining] and a [Listing]; all that Aloft has are.
type Forge interface {
	// Open opens the pull request, or gives back the open one there is from the
	// head to the base, as it is: a repeat after a crash never opens a second.
	// Texts that are too long for the host are cut. Both branches must be there,
	// and the head be ahead of the base.
	Open(ctx context.Context, n NewPullRequest) (PullRequest, error)
	// Update changes what of c is not nil, and returns what is then.
	Update(ctx context.Context, r Repo, number int, c Change) (PullRequest, error)
	// Get returns a pull request.
	Get(ctx context.Context, r Repo, number int) (PullRequest, error)
	// Find returns the pull requests from a branch of the repository itself, not
	// of forks: open, closed and merged ones, the newest first, at most [MaxFound].
	Find(ctx context.Context, r Repo, head string) ([]PullRequest, error)
	// DefaultBranch returns the branch that pull requests go to by default. It
	// fails for a repository that the token does not reach.
	DefaultBranch(ctx context.Context, r Repo) (string, error)
	// Checks returns what CI says of a commit now, by name. Of more than
	// [MaxChecks] those that failed are kept first, then those that are pending.
	Checks(ctx context.Context, r Repo, commit string) ([]Check, error)
}

// A Discussion is a [Forge] whose pull requests can be talked about.
type Discussion interface {
	// Comments returns what was said, the oldest first: at most the newest
	// [MaxComments]. What the host itself notes is left out.
	Comments(ctx context.Context, r Repo, number int) ([]Comment, error)
	// Comment says something. A repeat says it again.
	Comment(ctx context.Context, r Repo, number int, body string) (Comment, error)
}

// Reviewing is a [Forge] where people are asked to review.
type Reviewing interface {
	// RequestReview asks those who go by the names, besides whom was asked
	// before. Asking somebody again is no error; naming nobody known is one.
	RequestReview(ctx context.Context, r Repo, number int, logins []string) error
}

// A Merger is a [Forge] that merges.
type Merger interface {
	// Merge merges a pull request if its head is still at the commit, and returns
	// it merged. One that is merged already at that commit is returned as it is.
	// The error is a conflict where the head has moved, or the host does not let
	// it be merged (yet).
	Merge(ctx context.Context, r Repo, number int, headCommit string, how MergeMethod) (PullRequest, error)
}

// A Host is all that a forge may be.
type Host interface {
	Forge
	Discussion
	Reviewing
	Merger
	Examining
	Listing
}

// Options say where a host is, and how it is spoken to.
type Options struct {
	Host   string // git.example.com:3000
	API    string // its API's address, where it is not the usual one of the host
	Tokens Tokens
	Client *http.Client // its transport is used; nil for one that takes proxies from the environment
}

// Bounds of what is returned.
const (
	MaxFound    = 100
	MaxComments = 300
	MaxChecks   = 1000
	MaxBody     = 256 << 10 // bytes of a body or a comment that are kept
)

// NewPullRequest is a pull request to be opened.
type NewPullRequest struct {
	Repo  Repo   // whose branches both are
	Head  string // the branch with the work, without refs/heads/
	Base  string // the branch to be changed
	Title string // one line
	Body  string // Markdown
	Draft bool
}

// PullRequest is a pull request as the host has it.
type PullRequest struct {
	Repo       Repo
	HeadRepo   Repo // where the head is: of a fork another; zero where it is gone or hidden
	Number     int  // as people see it; of GitLab the one of the project
	URL        string
	Title      string // without the word by which GitLab and Gitea mark drafts
	Body       string
	Author     string // login
	Head       string
	HeadCommit string // "" while the host does not know
	Base       string
	State      State
	Draft      bool
}

// State is what has become of a pull request.
type State string

// States.
const (
	Open   State = "open"
	Closed State = "closed" // not merged
	Merged State = "merged"
)

// Change is what to change of a pull request.
type Change struct {
	Title *string
	Body  *string
	State *State // Open or Closed
}

// Check is what one of a commit's checks says.
type Check struct {
	Name    string
	State   CheckState
	Summary string // one line; may be ""
	URL     string // of its page; may be ""
}

// CheckState is how far a check is.
type CheckState string

// States of checks.
const (
	Pending CheckState = "pending" // waits, runs, or waits for a person
	Success CheckState = "success"
	Failure CheckState = "failure" // also an error, a timeout and a cancellation
	Neutral CheckState = "neutral" // neither good nor bad: skipped, stale
)

// Verdict is what all checks say together: Failure if one fails, else Pending
// if one is pending, else Success; "" without checks.
func Verdict(checks []Check) CheckState {
	var v CheckState
	for _, c := range checks {
		switch {
		case c.State == Failure:
			return Failure
		case c.State == Pending:
			v = Pending
		case v == "":
			v = Success
		}
	}
	return v
}

// Comment is something said about a pull request.
type Comment struct {
	ID        string // within the pull request
	Author    string // login
	Body      string
	CreatedAt time.Time
	URL       string
	Path      string // of a comment on a line: the file
	Line      int    // of it; 0 where it is not on a line, or no longer
}

// MergeMethod is how a pull request becomes part of its base.
type MergeMethod string

// Methods of merging. A host or a repository may not allow each.
const (
	MergeCommit MergeMethod = "merge"
	Squash      MergeMethod = "squash"
	Rebase      MergeMethod = "rebase"
)
