package forge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"aloft/internal/fault"
)

// Limits of reviews.
const (
	MaxThreads       = 200
	MaxThreadReplies = 100 // comments kept of one thread
	MaxReviews       = 100
)

// Reviewed is a [Forge] with code reviews.
type Reviewed interface {
	// Threads returns the review threads of a pull request, which are comments on
	// lines and the replies to them, oldest first. If there are more than
	// [MaxThreads], it returns the newest ones. Each has its first
	// [MaxThreadReplies] comments.
	Threads(ctx context.Context, r Repo, number int) ([]Thread, error)
	// Reviews returns the submitted reviews, oldest first. If there are more than
	// [MaxReviews], it returns the newest ones.
	Reviews(ctx context.Context, r Repo, number int) ([]Review, error)
	// Reply adds a comment to a thread of the pull request. A repeated call
	// adds another comment. The fault is forge_unsupported if the host does not
	// support replies.
	Reply(ctx context.Context, r Repo, number int, threadID, body string) (Comment, error)
	// Resolve marks a thread of the pull request as resolved. Repeating it is not
	// an error.
	Resolve(ctx context.Context, r Repo, number int, threadID string) error
}

// Access is a [Forge] that tells who may write to a repository.
type Access interface {
	// MayWrite reports whether the user may push to the repository. It returns
	// false for users who do not exist. The fault is forge_denied if the token
	// may not query this.
	MayWrite(ctx context.Context, r Repo, login string) (bool, error)
}

// Thread is a discussion of some lines of a pull request's diff.
type Thread struct {
	ID        string // opaque
	Path      string
	Line      int // the last line of the thread; 0 for the whole file
	StartLine int // the first line of several; 0 if there is only one
	// OldSide means that the line numbers refer to the file before the change.
	OldSide bool
	// Outdated means that the lines were changed after the first comment. Line
	// then refers to the commit on which the comment was made.
	Outdated bool
	Resolved bool
	Comments []Comment // oldest first
}

// Review is a verdict on a pull request.
type Review struct {
	ID          string // unique within the pull request
	Author      string // login
	Verdict     ReviewVerdict
	Body        string
	Commit      string    // the commit that was reviewed; "" if the host does not tell
	SubmittedAt time.Time // zero if the host does not tell
	URL         string
}

// ReviewVerdict is the result of a review.
type ReviewVerdict string

// Results of reviews.
const (
	Approved         ReviewVerdict = "approved"
	ChangesRequested ReviewVerdict = "changes_requested"
	Commented        ReviewVerdict = "commented"
	Dismissed        ReviewVerdict = "dismissed" // withdrawn, or no longer counted
)

// NewestThreads sorts threads by the time of their first comment, and keeps as
// many as [Reviewed] documents. It drops threads without comments.
func NewestThreads(all []Thread) []Thread {
	all = slices.DeleteFunc(all, func(t Thread) bool { return len(t.Comments) == 0 })
	for i, t := range all {
		slices.SortStableFunc(t.Comments, func(a, b Comment) int { return a.CreatedAt.Compare(b.CreatedAt) })
		all[i].Comments = t.Comments[:min(len(t.Comments), MaxThreadReplies)]
	}
	slices.SortStableFunc(all, func(a, b Thread) int { return a.Comments[0].CreatedAt.Compare(b.Comments[0].CreatedAt) })
	return all[max(len(all)-MaxThreads, 0):]
}

// NewestReviews sorts reviews by time, and keeps as many as [Reviewed]
// documents.
func NewestReviews(all []Review) []Review {
	slices.SortStableFunc(all, func(a, b Review) int { return a.SubmittedAt.Compare(b.SubmittedAt) })
	return all[max(len(all)-MaxReviews, 0):]
}

// NoThread returns the fault for a thread that does not belong to the pull
// request.
func NoThread(r Repo, number int, threadID string) error {
	return fault.NotFound("the pull request %d of %s has no thread %q", number, r, Line(threadID, 100)).Named(CodeNotFound).
		Hint("list its threads, and use the id of one")
}

// NoLog returns the fault for a check without a log that can be read.
func NoLog(r Repo, c Check) error {
	return fault.Invalid("%s has no log of the check %q", r.Host, Line(c.Name, 200)).Named(CodeUnsupported).
		Hint("another system reported this check: its page is %s", cmp.Or(c.URL, "not known"))
}
