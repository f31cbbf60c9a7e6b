package gitea

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

type issue struct {
	Number      int
	HTMLURL     string `json:"html_url"`
	Title, Body string
	User        *user
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	PullRequest json.RawMessage `json:"pull_request"` // present if it is a pull request
}

// Issue implements [forge.Issues].
func (f *Forge) Issue(ctx context.Context, r forge.Repo, number int) (forge.Issue, error) {
	var v issue
	if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: path(r, "issues", strconv.Itoa(number)), Out: &v}); err != nil {
		return forge.Issue{}, err
	}
	if v.isPull() {
		return forge.Issue{}, fault.NotFound("number %d of %s is a pull request, not an issue", number, r).Named(forge.CodeNotFound).
			Hint("read it as a pull request")
	}
	out := forge.Issue{Repo: r, Number: number, URL: forge.Web(v.HTMLURL), Title: forge.Line(v.Title, 500), Body: forge.Cut(v.Body, forge.MaxBody), CreatedAt: v.CreatedAt}
	if v.User != nil {
		out.Author = forge.Line(v.User.Login, 100)
	}
	return out, nil
}

// IssueComments implements [forge.Issues].
func (f *Forge) IssueComments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	var all []forge.Comment
	var said []comment // Gitea returns all comments at once
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: path(r, "issues", strconv.Itoa(number), "comments"), Out: &said})
	for _, v := range said {
		all = append(all, v.convert(""))
	}
	return forge.Newest(all), err
}

// CommentIssue implements [forge.Issues].
func (f *Forge) CommentIssue(ctx context.Context, r forge.Repo, number int, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if _, err := f.Issue(ctx, r, number); err != nil {
		return forge.Comment{}, err // a pull request with this number would accept it too
	}
	var v comment
	err := f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: path(r, "issues", strconv.Itoa(number), "comments"),
		In: map[string]any{"body": forge.Cut(body, maxBody)}, Out: &v})
	if err != nil {
		return forge.Comment{}, err
	}
	return v.convert(""), nil
}

// EditComment implements [forge.Issues].
func (f *Forge) EditComment(ctx context.Context, r forge.Repo, _ forge.Topic, id, body string) error {
	if err := forge.CheckComment(body); err != nil {
		return err
	}
	return f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPatch, Path: path(r, "issues", "comments", id),
		In: map[string]any{"body": forge.Cut(body, maxBody)}})
}

// Updated implements [forge.Issues].
func (f *Forge) Updated(ctx context.Context, r forge.Repo, since time.Time) ([]forge.Update, error) {
	var all []forge.Update
	query := url.Values{"state": {"all"}, "since": {since.UTC().Format(time.RFC3339)}, "limit": {perPage}}
	err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, "issues"), Query: query}, func(page []issue) bool {
		for _, v := range page {
			all = append(all, forge.Update{Topic: forge.Topic{Number: v.Number, Issue: !v.isPull()}, At: v.UpdatedAt})
		}
		return false
	})
	return all, err
}

// isPull reports whether the issue is a pull request.
func (v issue) isPull() bool { return len(v.PullRequest) > 0 && string(v.PullRequest) != "null" }
