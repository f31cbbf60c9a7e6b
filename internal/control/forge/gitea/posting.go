package gitea

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// newComment is a comment of a review to post.
type newComment struct {
	Path        string `json:"path"`
	Body        string `json:"body"`
	NewPosition int    `json:"new_position,omitempty"` // line of the new file
	OldPosition int    `json:"old_position,omitempty"` // line of the old file
}

// PostReview implements [forge.Posting]. Gitea first adds the comments to a
// pending review of the token's user, and then submits the pending review. If
// Gitea dies in between, the pending review remains, and the next call of
// PostReview removes it first. If a person has comments in the pending review,
// PostReview returns the fault forge_refused, because those comments would be
// submitted, too. Gitea does not support comments on several lines, so such
// comments are put on the last line.
func (f *Forge) PostReview(ctx context.Context, r forge.Repo, number int, n forge.NewReview) (forge.Comment, error) {
	if c, posted, err := forge.CheckReview(ctx, f, r, number, n); posted || err != nil {
		return c, err
	}
	if err := f.dropPending(ctx, r, number, n); err != nil {
		return forge.Comment{}, err
	}
	comments := []newComment{}
	for _, c := range n.Comments {
		one := newComment{Path: c.Path, NewPosition: c.Line}
		if c.OldSide {
			one = newComment{Path: c.OldPath, OldPosition: c.Line}
		}
		kind := "suggestion"
		if c.StartLine < c.Line {
			c.Body, kind = fmt.Sprintf("Lines %d to %d:\n\n%s", c.StartLine, c.Line, c.Body), ""
		}
		one.Body = c.Text(kind)
		comments = append(comments, one)
	}
	var v review
	err := f.AddReview(ctx, r, number, n, comments, &v)
	if !isInternal(err) {
		return v.convert("review-"), err
	}
	// Gitea may have added a part of the review, for example up to a line that
	// does not exist in the file.
	if c, ok, err := forge.Posted(ctx, f, r, number, n.Mark); ok || err != nil {
		return c, err
	}
	if err := f.dropPending(ctx, r, number, n); err != nil {
		return forge.Comment{}, err
	}
	return forge.Comment{}, fault.Invalid("%s cannot add the review to the pull request %d of %s", r.Host, number, r.Path).Named(forge.CodeRefused).
		Hint("its log says why: often a file does not have a line that a comment is about").Because(err)
}

// isInternal reports whether the error is the response 500, which Gitea sends
// for lines that do not exist in the file.
func isInternal(err error) bool {
	f := fault.Of(err)
	return err != nil && f.Code == forge.CodeUnreachable && strings.Contains(f.Message, "responded with status 500")
}

// dropPending removes the pending review that an interrupted attempt to post n
// has left, even if it has no comments yet.
func (f *Forge) dropPending(ctx context.Context, r forge.Repo, number int, n forge.NewReview) error {
	pending := int64(0) // Gitea shows only the pending review of the token's user, who has at most one
	a := forge.RESTPull(r, number, "reviews")
	a.Query = url.Values{"limit": {perPage}}
	err := forge.AllPages(ctx, f.wire, a, func(page []review) {
		for _, v := range page {
			if v.State == "PENDING" {
				pending = v.ID
			}
		}
	})
	if err != nil || pending == 0 {
		return err
	}
	var lines []comment
	a = forge.RESTPull(r, number, "reviews", strconv.FormatInt(pending, 10), "comments")
	a.Out = &lines
	if err := f.wire.Do(ctx, a); err != nil {
		return err
	}
	ours := func(v comment) bool {
		return slices.ContainsFunc(n.Comments, func(c forge.LineComment) bool { return strings.Contains(v.Body, c.Mark) })
	}
	if i := slices.IndexFunc(lines, func(v comment) bool { return !ours(v) }); i >= 0 {
		return fault.Invalid("the token's user has a pending review of the pull request %d of %s", number, r).Named(forge.CodeRefused).
			Hint("submit or delete it there, or give Aloft a token of a user of its own")
	}
	a = forge.RESTPull(r, number, "reviews", strconv.FormatInt(pending, 10))
	a.Method = http.MethodDelete
	return f.wire.Do(ctx, a)
}
