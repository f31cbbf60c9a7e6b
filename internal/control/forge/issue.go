package forge

import (
	"context"
	"time"
)

// Issue is an issue on a host.
type Issue struct {
	Repo      Repo
	Number    int // the number that users see; in GitLab the number within the project
	URL       string
	Title     string
	Body      string
	Author    string // login
	CreatedAt time.Time
}

// Issues is a [Forge] with issues, and with comments that can be changed.
type Issues interface {
	// Issue returns an issue. For the number of a pull request, the fault is
	// forge_not_found, even on hosts where issues and pull requests share their
	// numbers.
	Issue(ctx context.Context, r Repo, number int) (Issue, error)
	// IssueComments returns the newest [MaxComments] comments of an issue, oldest
	// first. The host's own notes are left out.
	IssueComments(ctx context.Context, r Repo, number int) ([]Comment, error)
	// CommentIssue adds a comment to an issue. A repeated call adds another
	// comment.
	CommentIssue(ctx context.Context, r Repo, number int, body string) (Comment, error)
	// EditComment replaces the text of a comment that the token's user has
	// added with CommentIssue, or, on a pull request, with
	// [Discussion.Comment].
	EditComment(ctx context.Context, r Repo, on Topic, id, body string) error
	// Updated returns the issues and pull requests that have changed since the
	// given time, for example by a comment, in any order. If there are more
	// than a thousand, some are left out.
	Updated(ctx context.Context, r Repo, since time.Time) ([]Update, error)
}

// Update says when an issue or a pull request was last changed.
type Update struct {
	Topic Topic
	At    time.Time
}

// Topic names an issue or a pull request of a repository.
type Topic struct {
	Number int
	Issue  bool // whether it is an issue, not a pull request
}
