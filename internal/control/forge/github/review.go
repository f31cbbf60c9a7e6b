package github

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// Queries for review threads, which the REST API does not offer.
const (
	threadsQuery = `query($owner: String!, $name: String!, $number: Int!, $before: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviewThreads(last: 50, before: $before) {
    pageInfo { hasPreviousPage startCursor }
    nodes { id isResolved isOutdated path line originalLine startLine originalStartLine diffSide
      comments(first: 100) { nodes { databaseId author { login } body createdAt url } } }
  } } }
}`
	threadQuery = `query($id: ID!) { node(id: $id) { ... on PullRequestReviewThread {
  id pullRequest { number repository { nameWithOwner } }
} } }`
	replyQuery = `mutation($id: ID!, $body: String!) { addPullRequestReviewThreadReply(input: {pullRequestReviewThreadId: $id, body: $body}) {
  comment { databaseId author { login } body createdAt url }
} }`
	resolveQuery = `mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { id isResolved } } }`
)

// node is a comment of a thread.
type node struct {
	DatabaseID int64
	Author     *user // nil if the account was deleted
	Body       string
	CreatedAt  time.Time
	URL        string
}

func (v node) convert(path string, line int) forge.Comment {
	c := forge.Comment{ID: "line-" + strconv.FormatInt(v.DatabaseID, 10), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody),
		CreatedAt: v.CreatedAt, URL: forge.Web(v.URL), Path: path, Line: line}
	if v.Author != nil {
		c.Author = forge.Line(v.Author.Login, 100)
	}
	return c
}

type thread struct {
	ID                     string
	IsResolved, IsOutdated bool
	Path                   string
	Line, OriginalLine     int
	StartLine              int
	OriginalStartLine      int
	DiffSide               string // LEFT or RIGHT
	Comments               struct{ Nodes []node }
}

func (v thread) convert() forge.Thread {
	t := forge.Thread{ID: forge.Line(v.ID, 200), Path: forge.Line(v.Path, 1000), Line: v.Line, StartLine: v.StartLine,
		OldSide: v.DiffSide == "LEFT", Outdated: v.IsOutdated, Resolved: v.IsResolved}
	if t.Line == 0 { // the lines are gone, or the thread is about the whole file
		t.Line, t.StartLine = v.OriginalLine, v.OriginalStartLine
	}
	for _, c := range v.Comments.Nodes {
		t.Comments = append(t.Comments, c.convert(t.Path, v.Line))
	}
	return t
}

// Threads implements [forge.Reviewed].
func (f *Forge) Threads(ctx context.Context, r forge.Repo, number int) ([]forge.Thread, error) {
	var all []forge.Thread
	variables := map[string]any{"owner": r.Owner(), "name": r.Name(), "number": number, "before": nil}
	for len(all) < forge.MaxThreads {
		var v struct {
			Repository struct {
				PullRequest struct {
					ReviewThreads struct {
						PageInfo struct {
							HasPreviousPage bool
							StartCursor     string
						}
						Nodes []thread
					}
				}
			}
		}
		if err := f.query(ctx, r, threadsQuery, variables, &v); err != nil {
			return nil, err
		}
		page := v.Repository.PullRequest.ReviewThreads
		for _, t := range page.Nodes {
			all = append(all, t.convert())
		}
		if !page.PageInfo.HasPreviousPage || len(page.Nodes) == 0 {
			break
		}
		variables["before"] = page.PageInfo.StartCursor
	}
	return forge.NewestThreads(all), nil
}

// checkThread returns an error unless the thread belongs to the pull request.
func (f *Forge) checkThread(ctx context.Context, r forge.Repo, number int, threadID string) error {
	var v struct {
		Node *struct {
			ID          string
			PullRequest struct {
				Number     int
				Repository struct{ NameWithOwner string }
			}
		}
	}
	err := f.query(ctx, r, threadQuery, map[string]any{"id": threadID}, &v)
	if err == nil && (v.Node == nil || v.Node.ID == "" || v.Node.PullRequest.Number != number || !strings.EqualFold(v.Node.PullRequest.Repository.NameWithOwner, r.Path)) ||
		fault.Is(err, fault.KindNotFound) {
		return forge.NoThread(r, number, threadID)
	}
	return err
}

// Reply implements [forge.Reviewed].
func (f *Forge) Reply(ctx context.Context, r forge.Repo, number int, threadID, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if err := f.checkThread(ctx, r, number, threadID); err != nil {
		return forge.Comment{}, err
	}
	var v struct {
		AddPullRequestReviewThreadReply struct{ Comment node }
	}
	err := f.query(ctx, r, replyQuery, map[string]any{"id": threadID, "body": forge.Inert(body, maxBody)}, &v)
	return v.AddPullRequestReviewThreadReply.Comment.convert("", 0), err
}

// Resolve implements [forge.Reviewed].
func (f *Forge) Resolve(ctx context.Context, r forge.Repo, number int, threadID string) error {
	if err := f.checkThread(ctx, r, number, threadID); err != nil {
		return err
	}
	var v struct{}
	return f.query(ctx, r, resolveQuery, map[string]any{"id": threadID}, &v)
}

type review struct {
	comment
	State    string
	CommitID string `json:"commit_id"`
}

var verdicts = map[string]forge.ReviewVerdict{
	"APPROVED": forge.Approved, "CHANGES_REQUESTED": forge.ChangesRequested, "COMMENTED": forge.Commented, "DISMISSED": forge.Dismissed,
}

// Reviews implements [forge.Reviewed]. If there are more than a thousand, the
// later ones are left out.
func (f *Forge) Reviews(ctx context.Context, r forge.Repo, number int) ([]forge.Review, error) {
	var all []forge.Review
	a := forge.RESTPull(r, number, "reviews")
	a.Query = url.Values{"per_page": {perPage}}
	err := forge.Pages(ctx, f.wire, a, func(page []review) bool {
		for _, v := range page {
			if verdict := verdicts[v.State]; verdict != "" { // pending reviews are not submitted yet
				c := v.convert("review-")
				all = append(all, forge.Review{ID: c.ID, Author: c.Author, Verdict: verdict, Body: c.Body, Commit: forge.Hash(v.CommitID), SubmittedAt: c.CreatedAt, URL: c.URL})
			}
		}
		return false
	})
	return forge.NewestReviews(all), err
}

// MayWrite implements [forge.Access].
func (f *Forge) MayWrite(ctx context.Context, r forge.Repo, login string) (bool, error) {
	p, err := f.Permission(ctx, r, login)
	return p == "admin" || p == "write", err
}

// Prefixes of [forge.Check.LogID].
const (
	ofJob = "job-" // a check run of Actions, whose id is also the id of its job
	ofRun = "run-" // a check run of another App
)

func (v checkRun) logID() string {
	id := strconv.FormatInt(v.ID, 10)
	switch {
	case v.Status != "completed" || v.ID <= 0:
		return ""
	case v.App.Slug == "github-actions":
		return ofJob + id
	}
	return ofRun + id
}

// Log implements [forge.Logged]. For a check that an App reports, it returns the
// text of the App's report.
func (f *Forge) Log(ctx context.Context, r forge.Repo, c forge.Check) ([]byte, error) {
	if id, ok := strings.CutPrefix(c.LogID, ofJob); ok {
		return f.wire.Tail(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "actions", "jobs", id, "logs")})
	}
	id, ok := strings.CutPrefix(c.LogID, ofRun)
	if !ok {
		return nil, forge.NoLog(r, c)
	}
	var v checkRun
	if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "check-runs", id), Out: &v}); err != nil {
		return nil, err
	}
	text := strings.TrimSpace(v.Output.Summary + "\n\n" + v.Output.Text)
	if text == "" {
		return nil, forge.NoLog(r, c)
	}
	return forge.CleanLog([]byte(text)), nil
}
