package forge

import (
	"context"
	"slices"
	"strings"

	"aloft/internal/fault"
)

// Posting is a [Forge] that accepts code reviews and commit statuses.
type Posting interface {
	// PostReview posts a review with comments on lines of the pull request's
	// diff, and returns it with its ID and URL. It recognizes the review and
	// each comment by their marks, so a call after an interrupted call posts
	// only the missing parts. The fault is forge_refused if the host does not
	// accept the review, for example because a line is not part of the diff or
	// the token's user has a review in preparation.
	PostReview(ctx context.Context, r Repo, number int, n NewReview) (Comment, error)
	// SetStatus sets a status of a commit, and replaces the earlier one of the same
	// name. Hosts have no neutral status: Neutral becomes Success.
	SetStatus(ctx context.Context, r Repo, commit string, s Status) error
}

// NewReview is a review to post, without a verdict.
type NewReview struct {
	Commit   string // the reviewed commit
	Body     string // Markdown, without the mark
	Mark     string // a result of [Mark]
	Comments []LineComment
}

// LineComment is a comment on lines of a diff. The lines are within one hunk.
type LineComment struct {
	Path, OldPath string // paths of the file after and before the change; equal unless it was renamed
	StartLine     int    // the first line
	Line          int    // the last line
	OldSide       bool   // whether the lines are in the file before the change
	// OtherLine is the number of the same line in the other version of the
	// file, or 0 if the change adds or removes the line.
	OtherLine  int
	Body       string // Markdown, without the suggestion and the mark
	Suggestion string // replaces the lines; "" if there is none
	Mark       string // a result of [Mark]
}

// Status is a status of a commit.
type Status struct {
	Name    string // such as aloft/review
	State   CheckState
	Summary string // one line
	URL     string // page with more details; may be ""
}

// maxStatus is the maximum length of a status's summary that all hosts accept.
const maxStatus = 140

// Line returns the summary that every host accepts.
func (s Status) Line() string { return Line(s.Summary, maxStatus) }

// Check returns a fault for reviews that no host accepts.
func (n NewReview) Check() error {
	switch {
	case Hash(n.Commit) == "":
		return fault.Invalid("%q is not a commit", Line(n.Commit, 100)).Named(CodeRefused)
	case strings.TrimSpace(n.Body) == "" || !IsMarked(n.Mark):
		return fault.Invalid("a review needs a text and a mark").Named(CodeRefused)
	}
	for _, c := range n.Comments {
		if c.Path == "" || c.StartLine < 1 || c.Line < c.StartLine || strings.TrimSpace(c.Body) == "" || !IsMarked(c.Mark) {
			return fault.Invalid("a comment of a review needs lines of a file, a text and a mark").Named(CodeRefused)
		}
	}
	return nil
}

// Text returns the body followed by the mark. It cuts the body so that the
// result has at most the given number of bytes.
func (n NewReview) Text(most int) string { return Inert(n.Body, most-len(n.Mark)-1) + "\n" + n.Mark }

// Text returns the text of the comment, then its suggestion as a code block of
// the given kind, such as "suggestion", and then its mark. A suggestion that [Inert]
// changes is a plain block, because hosts apply suggestions to the code.
func (c LineComment) Text(kind string) string {
	text := c.Body
	if c.Suggestion != "" {
		if HasCommand(c.Suggestion) {
			kind = ""
		}
		text += "\n\n" + Fenced(kind, c.Suggestion)
	}
	return Inert(text, MaxBody) + "\n" + c.Mark
}

// Fenced returns a text as a Markdown code block. The text cannot end the
// block.
func Fenced(kind, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + kind + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// marked returns the comment that contains the mark.
func marked(all []Comment, mark string) (Comment, bool) {
	at := slices.IndexFunc(all, func(c Comment) bool { return strings.Contains(c.Body, mark) })
	if at < 0 {
		return Comment{}, false
	}
	return all[at], true
}

// CheckReview returns a fault for reviews that no host accepts, or the review's
// comment if an earlier call has posted the review.
func CheckReview(ctx context.Context, d Discussion, r Repo, number int, n NewReview) (c Comment, posted bool, err error) {
	if err := n.Check(); err != nil {
		return Comment{}, false, err
	}
	return Posted(ctx, d, r, number, n.Mark)
}

// Posted returns the comment with the mark, if the pull request has it.
func Posted(ctx context.Context, d Discussion, r Repo, number int, mark string) (Comment, bool, error) {
	all, err := d.Comments(ctx, r, number)
	if err != nil {
		return Comment{}, false, err
	}
	c, ok := marked(all, mark)
	return c, ok, nil
}
