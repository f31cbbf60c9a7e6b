package forge

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/fault"
)

// RESTIssues implements [Issues] with the paths and the JSON that GitHub and Gitea
// have in common. It is safe for concurrent use.
type RESTIssues struct {
	Wire          *Wire
	CommentsQuery url.Values // of a list of comments
	UpdatesQuery  url.Values // of a list of issues, in addition to state and since
	MaxBody       int        // bytes of a comment
}

// restIssue is an issue, or a pull request in a list of issues.
type restIssue struct {
	Number      int
	HTMLURL     string `json:"html_url"`
	Title, Body string
	User        *restUser       // nil if the account was deleted
	CreatedAt   time.Time       `json:"created_at"`
	UpdatedAt   time.Time       `json:"updated_at"`
	PullRequest json.RawMessage `json:"pull_request"` // present if it is a pull request
}

// isPull reports whether the issue is a pull request.
func (v restIssue) isPull() bool { return len(v.PullRequest) > 0 && string(v.PullRequest) != "null" }

type restUser struct{ Login string }

func (v *restUser) login() string {
	if v == nil {
		return ""
	}
	return Line(v.Login, 100)
}

// restComment is a comment on an issue or on a pull request as a whole.
type restComment struct {
	ID        int64
	User      *restUser
	Body      string
	CreatedAt time.Time `json:"created_at"`
	HTMLURL   string    `json:"html_url"`
}

func (v restComment) convert() Comment {
	return Comment{ID: strconv.FormatInt(v.ID, 10), Author: v.User.login(), Body: Cut(v.Body, MaxBody), CreatedAt: v.CreatedAt, URL: Web(v.HTMLURL)}
}

// issues returns a request about the issues of a repository.
func (i RESTIssues) issues(r Repo, rest ...string) Ask {
	return Ask{Repo: r, Path: append([]string{"repos", r.Owner(), r.Name(), "issues"}, rest...)}
}

// Issue implements [Issues].
func (i RESTIssues) Issue(ctx context.Context, r Repo, number int) (Issue, error) {
	var v restIssue
	a := i.issues(r, strconv.Itoa(number))
	a.Out = &v
	if err := i.Wire.Do(ctx, a); err != nil {
		return Issue{}, err
	}
	if v.isPull() {
		return Issue{}, fault.NotFound("number %d of %s is a pull request, not an issue", number, r).Named(CodeNotFound).
			Hint("read it as a pull request")
	}
	return Issue{Repo: r, Number: number, URL: Web(v.HTMLURL), Title: Line(v.Title, 500), Body: Cut(v.Body, MaxBody),
		Author: v.User.login(), CreatedAt: v.CreatedAt}, nil
}

// IssueComments implements [Issues]. If there are more than ten pages of comments,
// the later ones are left out. Gitea has only one page.
func (i RESTIssues) IssueComments(ctx context.Context, r Repo, number int) ([]Comment, error) {
	var all []Comment
	a := i.issues(r, strconv.Itoa(number), "comments")
	a.Query = i.CommentsQuery
	err := Pages(ctx, i.Wire, a, func(page []restComment) bool {
		for _, v := range page {
			all = append(all, v.convert())
		}
		return false
	})
	return Newest(all), err
}

// CommentIssue implements [Issues].
func (i RESTIssues) CommentIssue(ctx context.Context, r Repo, number int, body string) (Comment, error) {
	if err := CheckComment(body); err != nil {
		return Comment{}, err
	}
	if _, err := i.Issue(ctx, r, number); err != nil {
		return Comment{}, err // a pull request with this number would accept it too
	}
	var v restComment
	a := i.issues(r, strconv.Itoa(number), "comments")
	a.Method, a.In, a.Out = http.MethodPost, map[string]any{"body": Cut(body, i.MaxBody)}, &v
	if err := i.Wire.Do(ctx, a); err != nil {
		return Comment{}, err
	}
	return v.convert(), nil
}

// EditComment implements [Issues].
func (i RESTIssues) EditComment(ctx context.Context, r Repo, _ Topic, id, body string) error {
	if err := CheckComment(body); err != nil {
		return err
	}
	a := i.issues(r, "comments", id)
	a.Method, a.In = http.MethodPatch, map[string]any{"body": Cut(body, i.MaxBody)}
	return i.Wire.Do(ctx, a)
}

// Updated implements [Issues].
func (i RESTIssues) Updated(ctx context.Context, r Repo, since time.Time) ([]Update, error) {
	var all []Update
	a := i.issues(r)
	a.Query = url.Values{"state": {"all"}, "since": {since.UTC().Format(time.RFC3339)}}
	for name, values := range i.UpdatesQuery {
		a.Query[name] = values
	}
	err := Pages(ctx, i.Wire, a, func(page []restIssue) bool {
		for _, v := range page {
			all = append(all, Update{Topic: Topic{Number: v.Number, Issue: !v.isPull()}, At: v.UpdatedAt})
		}
		return false
	})
	return all, err
}
