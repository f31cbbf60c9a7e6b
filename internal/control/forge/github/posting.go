package github

import (
	"context"
	"net/http"

	"aloft/internal/control/forge"
)

// newComment is a comment of a review to post.
type newComment struct {
	Path      string `json:"path"`
	Body      string `json:"body"`
	Line      int    `json:"line"`
	Side      string `json:"side"` // LEFT or RIGHT
	StartLine int    `json:"start_line,omitempty"`
	StartSide string `json:"start_side,omitempty"`
}

// PostReview implements [forge.Posting]. GitHub accepts a review as a whole or not
// at all.
func (f *Forge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (forge.Comment, error) {
	if err := n.Check(); err != nil {
		return forge.Comment{}, err
	}
	if c, ok, err := forge.Posted(ctx, f, r, number, n.Mark); ok || err != nil {
		return c, err
	}
	comments := []newComment{}
	for _, c := range n.Comments {
		one := newComment{Path: c.Path, Body: c.Text("suggestion"), Line: c.Line, Side: "RIGHT"}
		if c.OldSide { // GitHub knows a renamed file by its new name
			one.Side = "LEFT"
		}
		if c.StartLine < c.Line {
			one.StartLine, one.StartSide = c.StartLine, one.Side
		}
		comments = append(comments, one)
	}
	var v review
	a := pullRequest(r, number, "reviews")
	a.Method, a.Out = http.MethodPost, &v
	a.In = map[string]any{"commit_id": n.Commit, "event": "COMMENT", "body": forge.Cut(n.Body, maxBody-len(n.Mark)-1) + "\n" + n.Mark, "comments": comments}
	if err := f.wire.Do(ctx, a); err != nil {
		return forge.Comment{}, err
	}
	return v.convert("review-"), nil
}

// statusStates are the states of commit statuses.
var statusStates = map[forge.CheckState]string{forge.Pending: "pending", forge.Success: "success", forge.Neutral: "success", forge.Failure: "failure"}

// SetStatus implements [forge.Posting].
func (f *Forge) SetStatus(ctx context.Context, r forge.Repo, commit string, s forge.Status) error {
	in := map[string]any{"state": statusStates[s.State], "context": s.Name, "description": s.Line()}
	if s.URL != "" {
		in["target_url"] = s.URL
	}
	return f.wire.Do(ctx, forge.Ask{Repo: r, Method: http.MethodPost, Path: path(r, "statuses", commit), In: in})
}
