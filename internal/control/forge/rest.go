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

// REST implements [Issues], and parts of the other interfaces of a [Host], with the
// paths and the JSON that GitHub and Gitea have in common. It is safe for concurrent
// use.
type REST struct {
	Wire          *Wire
	CommentsQuery url.Values // query for a list of comments
	UpdatesQuery  url.Values // query for a list of issues, in addition to state and since
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
	return Comment{ID: strconv.FormatInt(v.ID, 10), Author: v.User.login(), Body: Cut(AsWritten(v.Body), MaxBody), CreatedAt: v.CreatedAt, URL: Web(v.HTMLURL)}
}

// RESTPath returns the path of a repository.
func RESTPath(r Repo, rest ...string) []string {
	return append([]string{"repos", r.Owner(), r.Name()}, rest...)
}

// RESTPull returns a request about a pull request.
func RESTPull(r Repo, number int, rest ...string) Ask {
	return Ask{Repo: r, Path: RESTPath(r, append([]string{"pulls", strconv.Itoa(number)}, rest...)...)}
}

// issues returns a request about the issues of a repository.
func (i REST) issues(r Repo, rest ...string) Ask {
	return Ask{Repo: r, Path: RESTPath(r, append([]string{"issues"}, rest...)...)}
}

// Issue implements [Issues].
func (i REST) Issue(ctx context.Context, r Repo, number int) (Issue, error) {
	v, err := Fetch[restIssue](ctx, i.Wire, i.issues(r, strconv.Itoa(number)))
	if err != nil {
		return Issue{}, err
	}
	if v.isPull() {
		return Issue{}, fault.NotFound("number %d of %s is a pull request, not an issue", number, r).Named(CodeNotFound).
			Hint("read it as a pull request")
	}
	return Issue{Repo: r, Number: number, URL: Web(v.HTMLURL), Title: Line(v.Title, 500), Body: Cut(AsWritten(v.Body), MaxBody),
		Author: v.User.login(), CreatedAt: v.CreatedAt}, nil
}

// IssueComments implements [Issues]. If there are more than ten pages of comments,
// the later ones are left out. Gitea has only one page.
func (i REST) IssueComments(ctx context.Context, r Repo, number int) ([]Comment, error) {
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
func (i REST) CommentIssue(ctx context.Context, r Repo, number int, body string) (Comment, error) {
	if err := CheckComment(body); err != nil {
		return Comment{}, err
	}
	if _, err := i.Issue(ctx, r, number); err != nil {
		return Comment{}, err // a pull request with this number would accept it too
	}
	return i.comment(ctx, r, number, body)
}

// Comment implements [Discussion].
func (i REST) Comment(ctx context.Context, r Repo, number int, body string) (Comment, error) {
	if err := CheckComment(body); err != nil {
		return Comment{}, err
	}
	if err := i.Wire.Do(ctx, RESTPull(r, number)); err != nil {
		return Comment{}, err // an issue with this number would accept it too
	}
	return i.comment(ctx, r, number, body)
}

func (i REST) comment(ctx context.Context, r Repo, number int, body string) (Comment, error) {
	a := i.issues(r, strconv.Itoa(number), "comments")
	a.Method, a.In = http.MethodPost, map[string]any{"body": Inert(body, i.MaxBody)}
	v, err := Fetch[restComment](ctx, i.Wire, a)
	if err != nil {
		return Comment{}, err
	}
	return v.convert(), nil
}

// EditComment implements [Issues].
func (i REST) EditComment(ctx context.Context, r Repo, _ Topic, id, body string) error {
	if err := CheckComment(body); err != nil {
		return err
	}
	a := i.issues(r, "comments", id)
	a.Method, a.In = http.MethodPatch, map[string]any{"body": Inert(body, i.MaxBody)}
	return i.Wire.Do(ctx, a)
}

// Updated implements [Issues].
func (i REST) Updated(ctx context.Context, r Repo, since time.Time) ([]Update, error) {
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

// DefaultBranch implements [Forge].
func (i REST) DefaultBranch(ctx context.Context, r Repo) (string, error) {
	return FetchDefaultBranch(ctx, i.Wire, Ask{Repo: r, Path: RESTPath(r)})
}

// RequestReview implements [Reviewing].
func (i REST) RequestReview(ctx context.Context, r Repo, number int, logins []string) error {
	if len(logins) == 0 {
		return nil
	}
	a := RESTPull(r, number, "requested_reviewers")
	a.Method, a.In = http.MethodPost, map[string]any{"reviewers": logins}
	return i.Wire.Do(ctx, a)
}

// Permission returns what the user may do with the repository: "" for users who do
// not exist.
func (i REST) Permission(ctx context.Context, r Repo, login string) (string, error) {
	v, err := Fetch[struct{ Permission string }](ctx, i.Wire, Ask{Repo: r, Path: RESTPath(r, "collaborators", login, "permission")})
	if fault.Is(err, fault.KindNotFound) {
		_, err = i.DefaultBranch(ctx, r) // not found may refer to the user or to the repository
		return "", err
	}
	return v.Permission, err
}

// AddReview posts a review with comments in the host's form, as a whole. It
// decodes the response into out.
func (i REST) AddReview(ctx context.Context, r Repo, number int, n NewReview, comments, out any) error {
	a := RESTPull(r, number, "reviews")
	a.Method, a.Out = http.MethodPost, out
	a.In = map[string]any{"commit_id": n.Commit, "event": "COMMENT", "body": n.Text(i.MaxBody), "comments": comments}
	return i.Wire.Do(ctx, a)
}

// restStates are the states of commit statuses.
var restStates = map[CheckState]string{Pending: "pending", Success: "success", Neutral: "success", Failure: "failure"}

// SetStatus implements [Posting].
func (i REST) SetStatus(ctx context.Context, r Repo, commit string, s Status) error {
	in := map[string]any{"state": restStates[s.State], "context": s.Name, "description": s.Line()}
	if s.URL != "" {
		in["target_url"] = s.URL
	}
	return i.Wire.Do(ctx, Ask{Repo: r, Method: http.MethodPost, Path: RESTPath(r, "statuses", commit), In: in})
}
