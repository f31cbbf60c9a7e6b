// Package forge is the interface to code hosts, where a pushed branch becomes a
// pull request. The packages below it implement GitHub, GitLab and Gitea (also
// Forgejo). A merge request is called a pull request here.
//
// Every adapter uses the host's REST API directly, through [Wire], and not the
// host's SDK. The dozen requests that are needed take less code than adapting
// the SDKs' errors, retries and clients would. And the code that limits
// responses, follows redirects and protects tokens exists only once.
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
// An adapter stores no token. For each request it asks [Tokens] for the
// repository's token, configured under the longest matching URL prefix, as for
// git. So different owners on one host can have different tokens, and a token
// that changes, such as the hourly ones of a GitHub App, needs no new adapter.
//
// # Trust
//
// Responses of a host are untrusted: their size is limited, titles and names
// are reduced to one plain line, and addresses other than http and https are
// dropped. Bodies and comments are untrusted text, and never instructions. No
// error contains a token.
//
// Errors are faults of package fault. Codes: integration_not_connected,
// forge_no_token, forge_unauthorized, forge_denied, forge_not_found,
// forge_conflict, forge_refused, forge_rate_limited (see [RetryAfter]),
// forge_unreachable, forge_unsupported.
package forge

import (
	"context"
	"net/http"
	"time"
)

// A Forge is a code host, as seen by one configuration. Its methods are safe
// for concurrent use. A host may also implement [Discussion], [Issues],
// [Reviewing], [Reviewed], [Posting], [Logged], [Access], [Examining] and
// [Listing]; Aloft's own adapters all do.
type Forge interface {
	// Open opens the pull request, or returns an open pull request from the
	// same head to the same base unchanged. So a retry after a crash never
	// opens a second pull request. Texts that are too long for the host are
	// truncated. Both branches must exist, and the head must be ahead of the
	// base.
	Open(ctx context.Context, n NewPullRequest) (PullRequest, error)
	// Update changes the fields of c that are not nil, and returns the result.
	Update(ctx context.Context, r Repo, number int, c Change) (PullRequest, error)
	// Get returns a pull request.
	Get(ctx context.Context, r Repo, number int) (PullRequest, error)
	// Find returns the pull requests from a branch of the repository itself, not
	// of forks, in any state, newest first, at most [MaxFound].
	Find(ctx context.Context, r Repo, head string) ([]PullRequest, error)
	// DefaultBranch returns the default target branch of pull requests. It fails
	// if the token has no access to the repository.
	DefaultBranch(ctx context.Context, r Repo) (string, error)
	// Checks returns the current CI checks of a commit, sorted by name. If there
	// are more than [MaxChecks], failed ones are kept first, then pending ones.
	Checks(ctx context.Context, r Repo, commit string) ([]Check, error)
}

// A Discussion is a [Forge] with comments on pull requests.
type Discussion interface {
	// Comments returns the newest [MaxComments] comments, oldest first. The
	// host's own notes are left out.
	Comments(ctx context.Context, r Repo, number int) ([]Comment, error)
	// Comment adds a comment. A repeated call adds another comment.
	Comment(ctx context.Context, r Repo, number int, body string) (Comment, error)
}

// Reviewing is a [Forge] that can request reviews.
type Reviewing interface {
	// RequestReview requests reviews from the given users, in addition to
	// earlier requests. A repeated request is not an error, but an unknown user
	// is.
	RequestReview(ctx context.Context, r Repo, number int, logins []string) error
}

// A Host is a forge with all optional interfaces.
type Host interface {
	Forge
	Discussion
	Issues
	Reviewing
	Reviewed
	Posting
	Logged
	Access
	Examining
	Listing
}

// Options hold the address of a host and how to connect to it.
type Options struct {
	Host   string // git.example.com:3000
	API    string // address of its API, if not the host's default
	Tokens Tokens
	Client *http.Client // only its transport is used; nil means a transport with the environment's proxies
}

// Limits of what a forge returns.
const (
	MaxFound    = 100
	MaxComments = 300
	MaxChecks   = 1000
	MaxBody     = 256 << 10 // bytes kept of a body or a comment
)

// NewPullRequest is a pull request to open.
type NewPullRequest struct {
	Repo  Repo   // the repository of both branches
	Head  string // the branch with the changes, without refs/heads/
	Base  string // the target branch
	Title string // one line
	Body  string // Markdown
	Draft bool
}

// PullRequest is a pull request on a host.
type PullRequest struct {
	Repo       Repo
	HeadRepo   Repo // repository of the head; a fork, or zero if it is gone or hidden
	Number     int  // the number that users see; in GitLab the number within the project
	URL        string
	Title      string // without the prefix with which GitLab and Gitea mark drafts
	Body       string
	Author     string // login
	Head       string
	HeadCommit string // "" if the host does not know it yet
	Base       string
	State      State
	Draft      bool
}

// State is the state of a pull request.
type State string

// States of pull requests.
const (
	Open   State = "open"
	Closed State = "closed" // closed without merging
	Merged State = "merged"
)

// Change holds the changes of a pull request.
type Change struct {
	Title *string
	Body  *string
	State *State // Open or Closed
}

// Check is the result of one CI check of a commit.
type Check struct {
	Name    string
	State   CheckState
	Summary string    // one line; may be ""
	URL     string    // address of its page; may be ""
	LogID   string    // opaque id of its job, for [Logged]; "" if the host has no log
	EndedAt time.Time // zero if it has not ended, or the host does not tell
}

// CheckState is the state of a check.
type CheckState string

// States of checks.
const (
	Pending CheckState = "pending" // queued, running, or waiting for a person
	Success CheckState = "success"
	Failure CheckState = "failure" // also errors, timeouts and cancellations
	Neutral CheckState = "neutral" // neither success nor failure: skipped or stale
)

// Verdict combines the states of checks: Failure if a check failed, else
// Pending if a check is pending, else Success; "" without checks.
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

// Comment is a comment on a pull request.
type Comment struct {
	ID        string // unique within the pull request
	Author    string // login
	Body      string
	CreatedAt time.Time
	URL       string
	Path      string // file of a comment on a line
	Line      int    // line in the file; 0 if the comment is not on a line, or the line no longer exists
}
