// Package github is the forge GitHub: github.com, Enterprise Cloud with data
// residency, and Enterprise Server, with the REST API version 2022-11-28.
package github

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"aloft/internal/control/forge"
)

const (
	maxTitle = 256      // GitHub's limit, in characters
	maxBody  = 64 << 10 // GitHub's limit, in characters
	perPage  = "100"    // the maximum
)

// Forge is a GitHub host, github.com unless the options name another. Its
// methods are safe for concurrent use.
type Forge struct {
	forge.RESTIssues
	wire   *forge.Wire
	graph  *forge.Wire // GraphQL API
	opener forge.Opener
}

var _ forge.Host = (*Forge)(nil)

// New returns the forge. It does not connect yet.
func New(o forge.Options) (*Forge, error) {
	w, err := wire(o)
	if err != nil {
		return nil, err
	}
	o.API = graphQL(api(o))
	g, err := wire(o)
	return &Forge{wire: w, graph: g, RESTIssues: forge.RESTIssues{
		Wire: w, MaxBody: maxBody, CommentsQuery: url.Values{"per_page": {perPage}},
		UpdatesQuery: url.Values{"sort": {"updated"}, "direction": {"asc"}, "per_page": {perPage}},
	}}, err
}

func wire(o forge.Options) (*forge.Wire, error) {
	return forge.NewWire(forge.WireOptions{API: api(o), Tokens: o.Tokens, Client: o.Client, Words: messageOf,
		Headers: func(h http.Header, token string) {
			h.Set("Authorization", "Bearer "+token)
			h.Set("Accept", "application/vnd.github+json")
			h.Set("X-GitHub-Api-Version", "2022-11-28")
		}})
}

// api returns the default address of a host's API.
func api(o forge.Options) string {
	switch {
	case o.API != "":
		return o.API
	case o.Host == "" || o.Host == "github.com":
		return "https://api.github.com"
	case strings.HasSuffix(o.Host, ".ghe.com"):
		return "https://api." + o.Host
	}
	return "https://" + o.Host + "/api/v3"
}

// messageOf parses {"message": "Validation Failed", "errors": [{"message": …},
// {"field": "head", "code": "invalid"}]}.
func messageOf(body []byte) string {
	var v struct {
		Message string
		Errors  []json.RawMessage
	}
	_ = json.Unmarshal(body, &v) // missing fields stay empty
	said := []string{}
	if v.Message != "" {
		said = append(said, v.Message)
	}
	for _, raw := range v.Errors {
		var text string
		var e struct{ Message, Field, Code string }
		switch {
		case json.Unmarshal(raw, &text) == nil:
		case json.Unmarshal(raw, &e) != nil:
		case e.Message != "":
			text = e.Message
		default:
			text = e.Field + " is " + e.Code
		}
		said = append(said, text)
	}
	return strings.Join(said, ": ")
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

type pull struct {
	Number   int
	HTMLURL  string `json:"html_url"`
	Title    string
	Body     string
	User     user
	State    string
	Draft    bool
	MergedAt *string `json:"merged_at"`
	Head     struct {
		Ref, SHA string
		Repo     *repository
	}
	Base struct {
		Ref  string
		Repo repository
	}
}

func (v pull) convert(r forge.Repo) forge.PullRequest {
	p := forge.PullRequest{
		Repo: r, Number: v.Number, URL: forge.Web(v.HTMLURL), Title: forge.Line(v.Title, maxTitle*4), Body: forge.Cut(v.Body, forge.MaxBody),
		Author: forge.Line(v.User.Login, 100), Head: forge.Line(v.Head.Ref, 255), HeadCommit: forge.Hash(v.Head.SHA),
		Base: forge.Line(v.Base.Ref, 255), State: forge.Closed, Draft: v.Draft,
	}
	switch {
	case v.MergedAt != nil:
		p.State, p.Draft = forge.Merged, false
	case v.State == "open":
		p.State = forge.Open
	}
	if v.Head.Repo != nil {
		p.HeadRepo = forge.Repo{Host: r.Host, Path: forge.Line(v.Head.Repo.FullName, 255)}
		if v.Head.Repo.FullName == v.Base.Repo.FullName {
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
				"title": forge.Line(n.Title, maxTitle), "body": forge.Cut(n.Body, maxBody), "head": n.Head, "base": n.Base, "draft": n.Draft,
			}})
		})
}

// Update implements [forge.Forge].
func (f *Forge) Update(ctx context.Context, r forge.Repo, number int, c forge.Change) (forge.PullRequest, error) {
	if err := c.Check(); err != nil {
		return forge.PullRequest{}, err
	}
	in := map[string]any{}
	if c.Title != nil {
		in["title"] = forge.Line(*c.Title, maxTitle)
	}
	if c.Body != nil {
		in["body"] = forge.Cut(*c.Body, maxBody)
	}
	if c.State != nil {
		in["state"] = string(*c.State)
	}
	if len(in) == 0 {
		return f.Get(ctx, r, number)
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

// Find implements [forge.Forge].
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	return f.find(ctx, r, head, "all")
}

func (f *Forge) find(ctx context.Context, r forge.Repo, head, state string) ([]forge.PullRequest, error) {
	var all []forge.PullRequest
	err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "pulls"), Query: url.Values{
		"head": {r.Owner() + ":" + head}, "state": {state}, "sort": {"created"}, "direction": {"desc"}, "per_page": {perPage},
	}}, func(page []pull) bool {
		for _, v := range page {
			// GitHub ignores a head filter that it cannot parse, and an owner may
			// have forks of the repository.
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
