package github

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/control/forge"
)

type checkRun struct {
	ID           int64
	Name, Status string
	Conclusion   string
	HTMLURL      string    `json:"html_url"`
	CompletedAt  time.Time `json:"completed_at"`
	Output       struct{ Title, Summary, Text string }
	App          struct{ Slug string }
}

func (v checkRun) state() forge.CheckState {
	if v.Status != "completed" {
		return forge.Pending
	}
	switch v.Conclusion {
	case "success":
		return forge.Success
	case "neutral", "skipped", "stale":
		return forge.Neutral
	case "action_required":
		return forge.Pending
	}
	return forge.Failure // failure, cancelled, timed_out or startup_failure
}

type status struct {
	Context, State, Description string
	TargetURL                   string `json:"target_url"`
}

// Checks implements [forge.Forge]. It returns check runs, set by Actions and
// Apps, and commit statuses, set by others.
func (f *Forge) Checks(ctx context.Context, r forge.Repo, commit string) ([]forge.Check, error) {
	type runsPage struct {
		CheckRuns []checkRun `json:"check_runs"`
	}
	type statusPage struct{ Statuses []status }
	var runs []checkRun
	var statuses []status
	err := forge.AllPages(ctx, f.wire, forge.Ask{
		Repo: r, Path: forge.RESTPath(r, "commits", commit, "check-runs"), Query: url.Values{"filter": {"latest"}, "per_page": {perPage}},
	}, func(p runsPage) { runs = append(runs, p.CheckRuns...) })
	if err != nil {
		return nil, err
	}
	err = forge.AllPages(ctx, f.wire, forge.Ask{
		Repo: r, Path: forge.RESTPath(r, "commits", commit, "status"), Query: url.Values{"per_page": {perPage}},
	}, func(p statusPage) { statuses = append(statuses, p.Statuses...) })
	if err != nil {
		return nil, err
	}
	var all []forge.Check
	for _, v := range runs {
		all = append(all, forge.Check{Name: forge.Line(v.Name, 200), State: v.state(), Summary: forge.Line(v.Output.Title, 500),
			URL: forge.Web(v.HTMLURL), LogID: v.logID(), EndedAt: v.CompletedAt})
	}
	for _, v := range statuses {
		c := forge.Check{Name: forge.Line(v.Context, 200), State: forge.Failure, Summary: forge.Line(v.Description, 500), URL: forge.Web(v.TargetURL)}
		switch v.State {
		case "success":
			c.State = forge.Success
		case "pending":
			c.State = forge.Pending
		}
		all = append(all, c)
	}
	return forge.ByName(all), nil
}

// comment has the fields of a comment on the pull request, of a comment on a
// line, and of the text of a review.
type comment struct {
	ID          int64
	User        user
	Body        string
	CreatedAt   time.Time `json:"created_at"`
	SubmittedAt time.Time `json:"submitted_at"` // set for a review
	HTMLURL     string    `json:"html_url"`
	Path        string
	Line        int
}

func (v comment) convert(kind string) forge.Comment {
	c := forge.Comment{ID: kind + strconv.FormatInt(v.ID, 10), Author: forge.Line(v.User.Login, 100), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody),
		CreatedAt: v.CreatedAt, URL: forge.Web(v.HTMLURL), Path: forge.Line(v.Path, 1000), Line: v.Line}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = v.SubmittedAt
	}
	return c
}

// Comments implements [forge.Discussion]. If there are more than a thousand
// comments of one kind, the later ones are left out.
func (f *Forge) Comments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	n := strconv.Itoa(number)
	var all []forge.Comment
	for _, from := range []struct {
		kind string
		path []string
	}{
		{"", forge.RESTPath(r, "issues", n, "comments")},
		{"line-", forge.RESTPath(r, "pulls", n, "comments")},
		{"review-", forge.RESTPath(r, "pulls", n, "reviews")},
	} {
		err := forge.Pages(ctx, f.wire, forge.Ask{Repo: r, Path: from.path, Query: url.Values{"per_page": {perPage}}}, func(page []comment) bool {
			for _, v := range page {
				// Skip a review without text, because it only groups comments.
				if v.Body != "" {
					all = append(all, v.convert(from.kind))
				}
			}
			return false
		})
		if err != nil {
			return nil, err
		}
	}
	return forge.Newest(all), nil
}
