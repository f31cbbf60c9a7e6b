package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// firstIssue is the number of the first issue. Issues and pull requests share
// their numbers, as on GitHub.
const firstIssue = 1001

type issue struct {
	forge.Issue
	comments []forge.Comment
}

var _ forge.Issues = (*Forge)(nil)

// OpenIssue opens an issue as another user, and returns its number.
func (f *Forge) OpenIssue(r forge.Repo, author, title, body string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := f.repos[r.Path]
	n := firstIssue + len(in.issues)
	in.issues = append(in.issues, &issue{Issue: forge.Issue{
		Repo: r, Number: n, URL: fmt.Sprintf("https://%s/issues/%d", r, n), Title: forge.Line(title, 255), Body: body, Author: author, CreatedAt: time.Now().UTC(),
	}})
	return n
}

// SayAtIssue adds a comment by another user to an issue, and returns its id.
func (f *Forge) SayAtIssue(r forge.Repo, number int, author, body string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, err := f.issue(r, number)
	if err != nil {
		return ""
	}
	return i.say(author, body).ID
}

func (f *Forge) issue(r forge.Repo, number int) (*issue, error) {
	if in := f.repos[r.Path]; in != nil && number >= firstIssue && number < firstIssue+len(in.issues) {
		return in.issues[number-firstIssue], nil
	}
	return nil, missing(r)
}

func (i *issue) say(author, body string) forge.Comment {
	id := strconv.Itoa(i.Number*1000 + len(i.comments))
	c := forge.Comment{ID: id, Author: author, Body: forge.Cut(body, 65536), CreatedAt: time.Now().UTC(), URL: i.URL + "#" + id}
	i.comments = append(i.comments, c)
	return c
}

// Issue implements [forge.Issues].
func (f *Forge) Issue(ctx context.Context, r forge.Repo, number int) (forge.Issue, error) {
	if _, err := f.enter(ctx, "Issue", r); err != nil {
		return forge.Issue{}, err
	}
	defer f.mu.Unlock()
	i, err := f.issue(r, number)
	if err != nil {
		return forge.Issue{}, err
	}
	return i.Issue, nil
}

// IssueComments implements [forge.Issues].
func (f *Forge) IssueComments(ctx context.Context, r forge.Repo, number int) ([]forge.Comment, error) {
	if _, err := f.enter(ctx, "IssueComments", r); err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	i, err := f.issue(r, number)
	if err != nil {
		return nil, err
	}
	return forge.Newest(slices.Clone(i.comments)), nil
}

// CommentIssue implements [forge.Issues].
func (f *Forge) CommentIssue(ctx context.Context, r forge.Repo, number int, body string) (forge.Comment, error) {
	if err := forge.CheckComment(body); err != nil {
		return forge.Comment{}, err
	}
	if _, err := f.enter(ctx, "CommentIssue", r); err != nil {
		return forge.Comment{}, err
	}
	defer f.mu.Unlock()
	i, err := f.issue(r, number)
	if err != nil {
		return forge.Comment{}, err
	}
	return i.say(Login, body), nil
}

// EditComment implements [forge.Issues].
func (f *Forge) EditComment(ctx context.Context, r forge.Repo, on forge.Topic, id, body string) error {
	if err := forge.CheckComment(body); err != nil {
		return err
	}
	if _, err := f.enter(ctx, "EditComment", r); err != nil {
		return err
	}
	defer f.mu.Unlock()
	var said []forge.Comment
	if on.Issue {
		i, err := f.issue(r, on.Number)
		if err != nil {
			return err
		}
		said = i.comments
	} else {
		p, err := f.pull(r, on.Number)
		if err != nil {
			return err
		}
		said = p.comments
	}
	at := slices.IndexFunc(said, func(c forge.Comment) bool { return c.ID == id })
	switch {
	case at < 0:
		return missing(r)
	case said[at].Author != Login:
		return fault.Denied("the comment %s is %s's", id, said[at].Author).Named(forge.CodeDenied)
	}
	said[at].Body = forge.Cut(body, 65536)
	return nil
}

// Updated implements [forge.Issues].
func (f *Forge) Updated(ctx context.Context, r forge.Repo, since time.Time) (all []forge.Update, err error) {
	in, err := f.enter(ctx, "Updated", r)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	add := func(t forge.Topic, at time.Time, said []forge.Comment) {
		for _, c := range said {
			if c.CreatedAt.After(at) {
				at = c.CreatedAt
			}
		}
		if !at.IsZero() && !at.Before(since) {
			all = append(all, forge.Update{Topic: t, At: at})
		}
	}
	for _, i := range in.issues {
		add(forge.Topic{Number: i.Number, Issue: true}, i.CreatedAt, i.comments)
	}
	for _, p := range in.pulls {
		add(forge.Topic{Number: p.Number}, time.Time{}, p.all())
	}
	return all, nil
}
