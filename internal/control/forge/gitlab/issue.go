package gitlab

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/control/forge"
)

// issueAsk returns a request about an issue.
func issueAsk(r forge.Repo, number int, rest ...string) forge.Ask {
	return forge.Ask{Repo: r, Path: path(r, append([]string{"issues", strconv.Itoa(number)}, rest...)...)}
}

// Issue implements [forge.Issues].
func (f *Forge) Issue(ctx context.Context, r forge.Repo, number int) (forge.Issue, error) {
	var v struct {
		WebURL             string `json:"web_url"`
		Title, Description string
		Author             user
		CreatedAt          time.Time `json:"created_at"`
	}
	a := issueAsk(r, number)
	a.Out = &v
	if err := f.wire.Do(ctx, a); err != nil {
		return forge.Issue{}, err
	}
	return forge.Issue{Repo: r, Number: number, URL: forge.Web(v.WebURL), Title: forge.Line(v.Title, 500), Body: forge.Cut(v.Description, forge.MaxBody),
		Author: forge.Line(v.Author.Username, 100), CreatedAt: v.CreatedAt}, nil
}

// IssueComments implements [forge.Issues].
func (f *Forge) IssueComments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	of, err := f.Issue(ctx, r, number)
	if err != nil {
		return nil, err
	}
	return f.notes(ctx, issueAsk(r, number, "notes"), of.URL)
}

// CommentIssue implements [forge.Issues].
func (f *Forge) CommentIssue(ctx context.Context, r forge.Repo, number int, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	return f.addNote(ctx, issueAsk(r, number, "notes"), "", body)
}

// EditComment implements [forge.Issues].
func (f *Forge) EditComment(ctx context.Context, r forge.Repo, on forge.Topic, id, body string) error {
	if err := forge.CheckComment(body); err != nil {
		return err
	}
	a := mergeRequestAsk(r, on.Number, "notes", id)
	if on.Issue {
		a = issueAsk(r, on.Number, "notes", id)
	}
	a.Method, a.In = http.MethodPut, map[string]any{"body": forge.Inert(body, maxBody)}
	return f.wire.Do(ctx, a)
}

// Updated implements [forge.Issues].
func (f *Forge) Updated(ctx context.Context, r forge.Repo, since time.Time) ([]forge.Update, error) {
	var all []forge.Update
	for _, kind := range []string{"issues", "merge_requests"} {
		query := url.Values{"scope": {"all"}, "order_by": {"updated_at"}, "sort": {"asc"}, "updated_after": {since.UTC().Format(time.RFC3339)}, "per_page": {perPage}}
		type item struct {
			IID       int
			UpdatedAt time.Time `json:"updated_at"`
		}
		err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: path(r, kind), Query: query}, func(page []item) bool {
			for _, v := range page {
				all = append(all, forge.Update{Topic: forge.Topic{Number: v.IID, Issue: kind == "issues"}, At: v.UpdatedAt})
			}
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
