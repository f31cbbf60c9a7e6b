package github

import (
	"context"

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

// PostReview implements [forge.Posting]. GitHub adds a review atomically.
func (f *Forge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (forge.Comment, error) {
	if c, posted, err := forge.CheckReview(ctx, f, r, number, n); posted || err != nil {
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
	if err := f.AddReview(ctx, r, number, n, comments, &v); err != nil {
		return forge.Comment{}, err
	}
	return v.convert("review-"), nil
}
