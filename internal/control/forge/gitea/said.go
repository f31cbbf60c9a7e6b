package gitea

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"aloft/internal/control/forge"
)

type status struct {
	Status, Context, Description string
	TargetURL                    string    `json:"target_url"`
	UpdatedAt                    time.Time `json:"updated_at"`
}

// endedAt returns the time of a status, which is when the check ended, if the
// status is final.
func (v status) endedAt() time.Time {
	if v.state() == forge.Pending {
		return time.Time{}
	}
	return v.UpdatedAt
}

func (v status) state() forge.CheckState {
	switch v.Status {
	case "success":
		return forge.Success
	case "pending":
		return forge.Pending
	case "warning", "skipped":
		return forge.Neutral
	}
	return forge.Failure // error or failure
}

// Checks implements [forge.Forge]. It returns jobs of Actions and commit
// statuses.
func (f *Forge) Checks(ctx context.Context, r forge.Repo, commit string) ([]forge.Check, error) {
	var all []forge.Check
	for page := 1; len(all) < 10*forge.MaxChecks; page++ { // more than any host has
		var v struct{ Statuses []status }
		err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "commits", commit, "status"), Out: &v,
			Query: url.Values{"page": {strconv.Itoa(page)}, "limit": {perPage}}})
		if err != nil {
			return nil, err
		}
		for _, s := range v.Statuses {
			all = append(all, forge.Check{Name: forge.Line(s.Context, 200), State: s.state(), Summary: forge.Line(s.Description, 500),
				URL: forge.Web(s.TargetURL), LogID: s.logID(r), EndedAt: s.endedAt()})
		}
		if len(v.Statuses) == 0 { // total_count is the count of the page, and a page may have fewer than the limit
			break
		}
	}
	return forge.ByName(all), nil
}

type comment struct {
	ID          int64
	User        *user
	Body        string
	CreatedAt   time.Time `json:"created_at"`
	SubmittedAt time.Time `json:"submitted_at"` // set for a review
	HTMLURL     string    `json:"html_url"`
	Path        string
	Position    int    // line of a comment on a line
	State       string // set for a review
	Comments    int    `json:"comments_count"` // number of comments on lines in a review
}

func (v comment) convert(kind string) forge.Comment {
	c := forge.Comment{ID: kind + strconv.FormatInt(v.ID, 10), Body: forge.Cut(forge.AsWritten(v.Body), forge.MaxBody),
		CreatedAt: v.CreatedAt, URL: forge.Web(v.HTMLURL), Path: forge.Line(v.Path, 1000), Line: v.Position}
	if c.CreatedAt.IsZero() {
		c.CreatedAt = v.SubmittedAt
	}
	if v.User != nil {
		c.Author = forge.Line(v.User.Login, 100)
	}
	return c
}

// maxReviews is how many of the newest reviews are queried for comments on
// lines. Each takes a request.
const maxReviews = 20

// Comments implements [forge.Discussion].
func (f *Forge) Comments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	n := strconv.Itoa(number)
	var all []forge.Comment
	var framed []comment // reviews with comments on lines
	if _, err := f.Get(ctx, r, number); err != nil {
		return nil, err // an issue with this number would also have comments
	}
	var said []comment // Gitea returns all comments at once
	if err := f.wire.Do(ctx, forge.Ask{Repo: r, Path: forge.RESTPath(r, "issues", n, "comments"), Out: &said}); err != nil {
		return nil, err
	}
	for _, v := range said {
		all = append(all, v.convert(""))
	}
	a := forge.RESTPull(r, number, "reviews")
	a.Query = url.Values{"limit": {perPage}}
	err := forge.Pages(ctx, f.wire, a, func(page []comment) bool {
		for _, v := range page {
			if v.State == "PENDING" { // not submitted yet
				continue
			}
			if v.Comments > 0 {
				framed = append(framed, v)
			}
			if v.Body != "" {
				all = append(all, v.convert("review-"))
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	for _, review := range framed[max(len(framed)-maxReviews, 0):] {
		var lines []comment
		a := forge.RESTPull(r, number, "reviews", strconv.FormatInt(review.ID, 10), "comments")
		a.Out = &lines
		if err := f.wire.Do(ctx, a); err != nil {
			return nil, err
		}
		for _, v := range lines {
			all = append(all, v.convert("line-"))
		}
	}
	return forge.Newest(all), nil
}
