// Package github is the forge GitHub: github.com, Enterprise Cloud with data
// residency, and Enterprise Server, with the REST API version 2022-11-28.
package github

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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
	forge.REST
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
	return &Forge{wire: w, graph: g, REST: forge.REST{
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
	reasons := []string{}
	if v.Message != "" {
		reasons = append(reasons, v.Message)
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
		reasons = append(reasons, text)
	}
	return strings.Join(reasons, ": ")
}

type user struct{ Login string }

type repository struct {
	FullName string `json:"full_name"`
	Archived bool
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
		Repo: r, Number: v.Number, URL: forge.Web(v.HTMLURL), Title: forge.Line(v.Title, maxTitle*4), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody),
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
		p.HeadRepo = forge.HeadIn(r, v.Head.Repo.FullName, v.Base.Repo.FullName)
	}
	return p
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, n forge.NewPullRequest) (forge.PullRequest, error) {
	return f.opener.Open(ctx, n,
		func() ([]forge.PullRequest, error) { return f.find(ctx, n.Repo, n.Head, "open") },
		func() (forge.PullRequest, error) {
			return f.pull(ctx, forge.Ask{Repo: n.Repo, Method: http.MethodPost, Path: forge.RESTPath(n.Repo, "pulls"), In: map[string]any{
				"title": forge.Line(n.Title, maxTitle), "body": forge.Inert(n.Body, maxBody), "head": n.Head, "base": n.Base, "draft": n.Draft,
			}})
		})
}

// Update implements [forge.Forge].
func (f *Forge) Update(ctx context.Context, r forge.Repo, number int, c forge.Change) (forge.PullRequest, error) {
	if err := c.Check(); err != nil {
		return forge.PullRequest{}, err
	}
	in := c.Texts(func(title string) string { return forge.Line(title, maxTitle) }, "body", maxBody)
	if c.State != nil {
		in["state"] = string(*c.State)
	}
	if len(in) == 0 {
		return f.Get(ctx, r, number)
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

// Find implements [forge.Forge].
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	return f.find(ctx, r, head, "all")
}

func (f *Forge) find(ctx context.Context, r forge.Repo, head, state string) ([]forge.PullRequest, error) {
	// FindPulls also filters by head: GitHub ignores a head filter that it cannot
	// parse, and an owner may have forks of the repository.
	return forge.FindPulls(ctx, f.wire, forge.Ask{Repo: r, Path: forge.RESTPath(r, "pulls"), Query: url.Values{
		"head": {r.Owner() + ":" + head}, "state": {state}, "sort": {"created"}, "direction": {"desc"}, "per_page": {perPage},
	}}, head, pull.convert)
}
