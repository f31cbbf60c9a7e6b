// Package gitea is the forge Gitea, and Forgejo, which has the same API v1.
package gitea

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

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
	forge.REST
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
	return &Forge{wire: w, REST: forge.REST{Wire: w, MaxBody: maxBody, UpdatesQuery: url.Values{"limit": {perPage}}}}, err
}

// messageOf parses {"message": "…", "url": "…/api/swagger"}.
func messageOf(body []byte) string {
	var v struct{ Message string }
	_ = json.Unmarshal(body, &v) // missing fields stay empty
	return v.Message
}

type user struct{ Login string }

type repository struct {
	FullName string `json:"full_name"`
	Archived bool
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
	Draft      *bool // sent since Gitea 1.20
	Merged     bool
	Head, Base branch
}

func (v pull) convert(r forge.Repo) forge.PullRequest {
	p := forge.PullRequest{
		Repo: r, Number: v.Number, URL: forge.Web(v.HTMLURL), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody),
		Author: forge.Line(v.User.Login, 100), Head: forge.Line(cmp.Or(v.Head.Label, v.Head.Ref), 255), HeadCommit: forge.Hash(v.Head.SHA),
		Base: forge.Line(cmp.Or(v.Base.Label, v.Base.Ref), 255), State: forge.Closed,
	}
	p.Title, p.Draft = forge.Unmarked(forge.Line(v.Title, maxTitle*4))
	if v.Draft != nil && *v.Draft != p.Draft { // the host is configured with other draft prefixes
		p.Title, p.Draft = forge.Line(v.Title, maxTitle*4), *v.Draft
	}
	switch {
	case v.Merged:
		p.State = forge.Merged
	case v.State == "open":
		p.State = forge.Open
	}
	if v.Head.Repo != nil {
		p.HeadRepo = forge.HeadIn(r, v.Head.Repo.FullName, cmp.Or(v.Base.Repo, &repository{}).FullName)
	}
	return p
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, n forge.NewPullRequest) (forge.PullRequest, error) {
	return f.opener.Open(ctx, n,
		func() ([]forge.PullRequest, error) { return f.find(ctx, n.Repo, n.Head, "open") },
		func() (forge.PullRequest, error) {
			return f.pull(ctx, forge.Ask{Repo: n.Repo, Method: http.MethodPost, Path: forge.RESTPath(n.Repo, "pulls"), In: map[string]any{
				"title": forge.Marked(draft, n.Title, n.Draft, maxTitle), "body": forge.Inert(n.Body, maxBody), "head": n.Head, "base": n.Base,
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
	in := c.Texts(func(title string) string { return forge.Marked(draft, title, p.Draft, maxTitle) }, "body", maxBody)
	if c.State != nil && *c.State != p.State {
		in["state"] = string(*c.State)
	}
	if len(in) == 0 {
		return p, nil
	}
	a := forge.RESTPull(r, number)
	a.Method, a.In = http.MethodPatch, in
	return f.pull(ctx, a)
}

// Get implements [forge.Forge].
func (f *Forge) Get(ctx context.Context, r forge.Repo, number int) (forge.PullRequest, error) {
	return f.pull(ctx, forge.RESTPull(r, number))
}

// pull sends a request whose response is a pull request.
func (f *Forge) pull(ctx context.Context, a forge.Ask) (forge.PullRequest, error) {
	return forge.FetchPull(ctx, f.wire, a, pull.convert)
}

// Find implements [forge.Forge]. Gitea cannot filter by head, so it searches
// only the newest five hundred pull requests of the repository.
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	return f.find(ctx, r, head, "all")
}

func (f *Forge) find(ctx context.Context, r forge.Repo, head, state string) ([]forge.PullRequest, error) {
	// Newest first is Gitea's default order, and has no parameter.
	return forge.FindPulls(ctx, f.wire, forge.Ask{Repo: r, Path: forge.RESTPath(r, "pulls"), Query: url.Values{"state": {state}, "limit": {perPage}}}, head, pull.convert)
}
