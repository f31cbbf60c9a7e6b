// Package gitlab is the forge GitLab: gitlab.com and self-hosted instances,
// with the REST API v4. A merge request is called a pull request here.
package gitlab

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

const (
	maxTitle = 255
	maxBody  = forge.MaxBody // GitLab allows a mebibyte
	perPage  = "100"         // the maximum
	draft    = "Draft: "
)

// Forge is a GitLab host, gitlab.com unless the options name another. Its
// methods are safe for concurrent use.
type Forge struct {
	wire   *forge.Wire
	opener forge.Opener
}

var _ forge.Host = (*Forge)(nil)

// New returns the forge. It does not connect yet.
func New(o forge.Options) (*Forge, error) {
	w, err := forge.NewWire(forge.WireOptions{
		API: cmp.Or(o.API, "https://"+cmp.Or(o.Host, "gitlab.com")+"/api/v4"), Tokens: o.Tokens, Client: o.Client, Words: messageOf,
		// GitLab accepts all kinds of tokens in the header for OAuth tokens.
		Headers: func(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) },
	})
	return &Forge{wire: w}, err
}

// messageOf parses {"message": "404 Not found"}, {"message": {"title": ["is too
// long"]}}, {"message": ["…"]} and, from request validation, {"error": "…"}.
func messageOf(body []byte) string {
	var v struct{ Message, Error json.RawMessage }
	_ = json.Unmarshal(body, &v) // missing fields stay empty
	for _, raw := range []json.RawMessage{v.Message, v.Error} {
		var text string
		var list []string
		var fields map[string][]string
		switch {
		case raw == nil:
		case json.Unmarshal(raw, &text) == nil:
			return text
		case json.Unmarshal(raw, &list) == nil:
			return strings.Join(list, "; ")
		case json.Unmarshal(raw, &fields) == nil:
			var reasons []string
			for name, problems := range fields {
				reasons = append(reasons, name+" "+strings.Join(problems, ", "))
			}
			slices.Sort(reasons)
			return strings.Join(reasons, "; ")
		}
	}
	return ""
}

// path returns the path of a project. GitLab wants the project's full name as
// one escaped segment.
func path(r forge.Repo, rest ...string) []string {
	return append([]string{"projects", r.Path}, rest...)
}

// mergeRequestAsk returns a request about a merge request.
func mergeRequestAsk(r forge.Repo, number int, rest ...string) forge.Ask {
	return forge.Ask{Repo: r, Path: path(r, append([]string{"merge_requests", strconv.Itoa(number)}, rest...)...)}
}

type user struct {
	ID       int64
	Username string
}

type mergeRequest struct {
	IID             int
	WebURL          string `json:"web_url"`
	Title           string
	Description     string
	Author          user
	State           string // opened, closed, merged, or locked during the merge
	Draft           *bool  // since GitLab 13.2
	SHA             string
	SourceBranch    string `json:"source_branch"`
	TargetBranch    string `json:"target_branch"`
	SourceProjectID int64  `json:"source_project_id"`
	TargetProjectID int64  `json:"target_project_id"`
	Reviewers       []user
}

func (v mergeRequest) convert(r forge.Repo) forge.PullRequest {
	title, marked := forge.Unmarked(forge.Line(v.Title, maxTitle*4))
	p := forge.PullRequest{
		Repo: r, Number: v.IID, URL: forge.Web(v.WebURL), Title: title, Body: forge.Cut(forge.AsWritten(v.Description), forge.MaxBody),
		Author: forge.Line(v.Author.Username, 100), Head: forge.Line(v.SourceBranch, 255), HeadCommit: forge.Hash(v.SHA),
		Base: forge.Line(v.TargetBranch, 255), State: forge.Open, Draft: marked,
	}
	if v.Draft != nil {
		p.Draft = *v.Draft
	}
	switch v.State {
	case "merged":
		p.State = forge.Merged
	case "closed":
		p.State = forge.Closed
	}
	if v.SourceProjectID == v.TargetProjectID {
		p.HeadRepo = r // for forks GitLab returns only a number
	}
	return p
}

// Open implements [forge.Forge].
func (f *Forge) Open(ctx context.Context, n forge.NewPullRequest) (forge.PullRequest, error) {
	return f.opener.Open(ctx, n,
		func() ([]forge.PullRequest, error) { return f.find(ctx, n.Repo, n.Head, "opened") },
		func() (forge.PullRequest, error) {
			p, _, err := f.merge(ctx, forge.Ask{Repo: n.Repo, Method: http.MethodPost, Path: path(n.Repo, "merge_requests"), In: map[string]any{
				"title": forge.Marked(draft, n.Title, n.Draft, maxTitle), "description": forge.Inert(n.Body, maxBody),
				"source_branch": n.Head, "target_branch": n.Base,
			}})
			return p, err
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
	in := c.Texts(func(title string) string { return forge.Marked(draft, title, p.Draft, maxTitle) }, "description", maxBody)
	if c.Body != nil {
		in["description"] = forge.Inert(*c.Body, maxBody)
	}
	if c.State != nil && *c.State != p.State {
		if p.State == forge.Merged {
			return forge.PullRequest{}, fault.Conflict("%s!%d is merged, which cannot be undone", r.Path, number).Named(forge.CodeConflict)
		}
		in["state_event"] = map[forge.State]string{forge.Open: "reopen", forge.Closed: "close"}[*c.State]
	}
	if len(in) == 0 {
		return p, nil
	}
	a := mergeRequestAsk(r, number)
	a.Method, a.In = http.MethodPut, in
	p, _, err = f.merge(ctx, a)
	return p, err
}

// Get implements [forge.Forge].
func (f *Forge) Get(ctx context.Context, r forge.Repo, number int) (forge.PullRequest, error) {
	p, _, err := f.merge(ctx, mergeRequestAsk(r, number))
	return p, err
}

// merge sends a request whose response is a merge request.
func (f *Forge) merge(ctx context.Context, a forge.Ask) (forge.PullRequest, []user, error) {
	v, err := forge.Fetch[mergeRequest](ctx, f.wire, a)
	if err != nil {
		return forge.PullRequest{}, nil, err
	}
	return v.convert(a.Repo), v.Reviewers, nil
}

// Find implements [forge.Forge].
func (f *Forge) Find(ctx context.Context, r forge.Repo, head string) ([]forge.PullRequest, error) {
	return f.find(ctx, r, head, "all")
}

func (f *Forge) find(ctx context.Context, r forge.Repo, head, state string) ([]forge.PullRequest, error) {
	return forge.FindPulls(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "merge_requests"), Query: url.Values{
		"source_branch": {head}, "state": {state}, "order_by": {"created_at"}, "sort": {"desc"}, "per_page": {perPage},
	}}, head, mergeRequest.convert)
}

// DefaultBranch implements [forge.Forge].
func (f *Forge) DefaultBranch(ctx context.Context, r forge.Repo) (string, error) {
	return forge.FetchDefaultBranch(ctx, f.wire, forge.Ask{Repo: r, Path: path(r)})
}

// RequestReview implements [forge.Reviewing].
func (f *Forge) RequestReview(ctx context.Context, r forge.Repo, number int, logins []string) error {
	if len(logins) == 0 {
		return nil
	}
	_, asked, err := f.merge(ctx, mergeRequestAsk(r, number))
	if err != nil {
		return err
	}
	ids := []int64{}
	for _, u := range asked {
		ids = append(ids, u.ID)
	}
	for _, login := range logins {
		var found []user
		if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: []string{"users"}, Query: url.Values{"username": {login}}, Out: &found}); err != nil {
			return err
		}
		if len(found) != 1 {
			return fault.Invalid("%s has no user %q", r.Host, forge.Line(login, 100)).Named(forge.CodeRefused)
		}
		if !slices.Contains(ids, found[0].ID) {
			ids = append(ids, found[0].ID)
		}
	}
	if len(ids) == len(asked) {
		return nil
	}
	a := mergeRequestAsk(r, number)
	a.Method, a.In = http.MethodPut, map[string]any{"reviewer_ids": ids}
	_, now, err := f.merge(ctx, a)
	if err == nil && len(now) <= len(asked) {
		// GitLab Free allows one reviewer, and silently drops the others.
		return fault.Invalid("%s did not accept %s as reviewers", r.Host, fmt.Sprint(logins)).Named(forge.CodeRefused).
			Hint("they must be members of the project, and GitLab Free allows only one")
	}
	return err
}
