// Package gitea is the forge Gitea, and Forgejo, which has the same API v1.
package gitea

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"aloft/internal/control/forge"
)

const (
	maxTitle = 255
	maxBody  = 64 << 10
	perPage  = "50"    // the maximum, unless the host is configured otherwise
	draft    = "WIP: " // Gitea recognizes drafts by the title only
)

// Forge is a Gitea host. Its methods are safe for concurrent use.
type Forge struct {
	forge.RESTIssues
	wire   *forge.Wire
	opener forge.Opener
}

var _ forge.Host = (*Forge)(nil)

// New returns the forge. It does not connect yet.
func New(o forge.Options) (*Forge, error) {
	w, err := forge.NewWire(forge.WireOptions{
		API: cmp.Or(o.API, "https://"+o.Host+"/api/v1"), Tokens: o.Tokens, Client: o.Client, Words: messageOf,
		Headers: func(h http.Header, token string) { h.Set("Authorization", "token "+token) },
	})
	return &Forge{wire: w, RESTIssues: forge.RESTIssues{Wire: w, MaxBody: maxBody, UpdatesQuery: url.Values{"limit": {perPage}}}}, err
}

// messageOf parses {"message": "…", "url": "…/api/swagger"}.
func messageOf(body []byte) string {
	var v struct{ Message string }
	_ = json.Unmarshal(body, &v) // missing fields stay empty
	return v.Message
}

func path(r forge.Repo, rest ...string) []string {
	return append([]string{"repos", r.Owner(), r.Name()}, rest...)
}

// pullRequest returns a request about a pull request.
func pullRequest(r forge.Repo, number int, rest ...string) forge.Ask {
	return forge.Ask{Repo: r, Path: path(r, append([]string{"pulls", strconv.Itoa(number)}, rest...)...)}
}

type user struct{ Login string }

type repository struct {
	FullName      string `json:"full_name"`
	DefaultBranch string `json:"default_branch"`
	Archived      bool
}

type branch struct {
	Label, Ref, SHA string // if the head was deleted, only the label has its name
	Repo            *repository
}

type pull struct {
	Number     int
	HTMLURL    string `json:"html_url"`
	Title      string
	Body       string
	User       user
	State      string
	Draft      *bool // since Gitea 1.20
	Merged     bool
	Head, Base branch
}

func (v pull) convert(r forge.Repo) forge.PullRequest {
	p := forge.PullRequest{
		Repo: r, Number: v.Number, URL: forge.Web(v.HTMLURL), Body: forge.Cut(v.Body, forge.MaxBody),
		Author: forge.Line(v.User.Login, 100), Head: forge.Line(cmp.Or(v.Head.Label, v.Head.Ref), 255), HeadCommit: forge.Hash(v.Head.SHA),
		Base: forge.Line(cmp.Or(v.Base.Label, v.Base.Ref), 255), State: forge.Closed,
	}
	p.Title, p.Draft = forge.Unmarked(forge.Line(v.Title, maxTitle*4))
	if v.Draft != nil && *v.Draft != p.Draft { // the host is configured with other prefixes
		p.Title, p.Draft = forge.Line(v.Title, maxTitle*4), *v.Draft
	}
	switch {
	case v.Merged:
		p.State = forge.Merged
	case v.State == "open":
		p.State = forge.Open
	}
	if v.Head.Repo != nil {
		p.HeadRepo = forge.Repo{Host: r.Host, Path: forge.Line(v.Head.Repo.FullName, 255)}
		if v.Base.Repo != nil && v.Head.Repo.FullName == v.Base.Repo.FullName {
			p.HeadRepo = r // even if the repository was renamed
		}
	}
	return p
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, n forge.NewPullRequest) (forge.PullRequest, error) {
	return f.opener.Open(ctx, n,
		func() ([]forge.PullRequest, error) { return f.find(ctx, n.Repo, n.Head, "open") },
		func() (forge.PullRequest, error) {
			return f.pull(ctx, forge.Ask{Repo: n.Repo, Method: http.MethodPost, Path: path(n.Repo, "pulls"), In: map[string]any{
				"title": forge.Marked(draft, n.Title, n.Draft, maxTitle), "body": forge.Cut(n.Body, maxBody), "head": n.Head, "base": n.Base,
			}})
		})
}

// Update implements [forge.Forge].
func (f *Forge) Update(ctx context.Context, r forge.Repo, number int, c forge.Change) (forge.PullRequest, error) {
	if err := c.Check(); err != nil {
		return forge.PullRequest{}, err
	}
	p, err := f.Get(ctx, r, number) // the title tells whether it is a draft
	if err != nil {
		return forge.PullRequest{}, err
	}
	in := map[string]any{}
	if c.Title != nil {
		in["title"] = forge.Marked(draft, *c.Title, p.Draft, maxTitle)
	}
	if c.Body != nil {
		in["body"] = forge.Cut(*c.Body, maxBody)
	}
	if c.State != nil && *c.State != p.State {
		in["state"] = string(*c.State)
	}
	if len(in) == 0 {
		return p, nil
	}
	a := pullRequest(r, number)
	a.Method, a.In = http.MethodPatch, in
	return f.pull(ctx, a)
}

// Get implements [forge.Forge].
func (f *Forge) Get(ctx context.Context, r forge.Repo, number int) (forge.PullRequest, error) {
	return f.pull(ctx, pullRequest(r, number))
}

// pull sends a request whose response is a pull request.
func (f *Forge) pull(ctx context.Context, a forge.Ask) (forge.PullRequest, error) {
	var v pull
	a.Out = &v
	if err := f.wire.Do(ctx, a); err != nil {
		return forge.PullRequest{}, err
	}
	return v.convert(a.Repo), nil
}

// Find implements [forge.Forge]. Gitea cannot filter by head, so it searches
// only the newest five hundred pull requests of the repository.
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	return f.find(ctx, r, head, "all")
}

func (f *Forge) find(ctx context.Context, r forge.Repo, head, state string) ([]forge.PullRequest, error) {
	var all []forge.PullRequest
	// Newest first is Gitea's default order, and has no parameter.
	err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "pulls"), Query: url.Values{"state": {state}, "limit": {perPage}}}, func(page []pull) bool {
		for _, v := range page {
			if p := v.convert(r); p.Head == head && p.HeadRepo == r {
				all = append(all, p)
			}
		}
		return len(all) >= forge.MaxFound
	})
	return all[:min(len(all), forge.MaxFound)], err
}

// DefaultBranch implements [forge.Forge].
func (f *Forge) DefaultBranch(ctx context.Context, r forge.Repo) (string, error) {
	var v repository
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: path(r), Out: &v})
	return forge.Line(v.DefaultBranch, 255), err
}

// RequestReview implements [forge.Reviewing].
func (f *Forge) RequestReview(ctx context.Context, r forge.Repo, number int, logins []string) error {
	if len(logins) == 0 {
		return nil
	}
	a := pullRequest(r, number, "requested_reviewers")
	a.Method, a.In = http.MethodPost, map[string]any{"reviewers": logins}
	return f.wire.Do(ctx, a)
}
