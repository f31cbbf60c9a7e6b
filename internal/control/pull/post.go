package pull

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/patch"
	"aloft/internal/redact"
)

// Limits of a review's texts, in bytes.
const (
	maxReviewWords = 2 << 10
	maxPlainReview = 48 << 10 // limit of a review that is a single comment; forges allow 64 KiB
)

// statusName is the name of the status that reviewed commits get.
const statusName = "aloft/review"

// severityWords are the severities of findings in words, the most severe first.
var severityWords = []struct {
	severity agent.Severity
	word     string
}{{agent.High, "High"}, {agent.Medium, "Medium"}, {agent.Low, "Low"}}

func wordOf(s agent.Severity) string {
	for _, w := range severityWords {
		if w.severity == s {
			return w.word
		}
	}
	return string(s)
}

// ComposeReview returns the review to journal and then to post, with the
// findings that were not posted yet. complete means that the agent has ended
// its work itself. ComposeReview does not contact the forge. The fault is
// privacy_mode if the agent's text may not be shown outside.
func (d *Desk) ComposeReview(ctx context.Context, s *agent.State, complete bool) (agent.ReviewComposed, error) {
	of := s.Review.PullRequest
	if d.Mark == nil {
		return agent.ReviewComposed{}, fault.Invalid("this server posts no reviews").Named(forge.CodeUnsupported)
	}
	if err := d.mayPost(ctx, s.Agent, s.Run); err != nil {
		return agent.ReviewComposed{}, err
	}
	change, err := patch.Parse(s.Review.Patch)
	if err != nil {
		return agent.ReviewComposed{}, fmt.Errorf("the change under review: %w", err)
	}
	out := agent.ReviewComposed{Mark: d.markReview(of, s.Agent.ID, s.Run.ID)}
	redactor := redact.New(d.Secrets(s.Agent.ID))
	clean := func(text string) string { return redactor.String(forge.WithoutMarks(text)) }
	var findings []agent.Finding
	for _, f := range s.Findings {
		if slices.Contains(s.Told, f.ID) {
			continue
		}
		findings = append(findings, f)
		c := agent.ReviewComment{FindingID: f.ID, Path: f.Path, OldPath: f.Path, StartLine: f.Line, Line: f.EndLine, OldSide: f.OldSide, Mark: d.markFinding(of, s.Agent.ID, f.ID),
			Body: clean(fmt.Sprintf("**%s: %s**\n\n%s", wordOf(f.Severity), escaped.Replace(f.Title), f.Body))}
		if file, other, ok := change.Place(f.Path, f.EndLine, f.OldSide); ok {
			c.Path, c.OldPath, c.OtherLine = cmp.Or(file.New, file.Old), cmp.Or(file.Old, file.New), other
		}
		if clean(f.Suggestion) == f.Suggestion { // applying a redacted suggestion would change a secret
			c.Suggestion = f.Suggestion
		}
		out.Comments = append(out.Comments, c)
	}
	counts := countsOf(findings)
	var b strings.Builder
	fmt.Fprintf(&b, "**Review** of %s: %s.", short(of.Commit), counts)
	if of.Since != "" {
		fmt.Fprintf(&b, " Only the changes since %s were reviewed.", short(of.Since))
	}
	if !complete {
		b.WriteString(" The review ended before it was complete.")
	}
	if summary := strings.TrimSpace(s.LastWords()); summary != "" {
		b.WriteString("\n\n" + cut(summary, maxReviewWords))
	}
	for _, e := range of.Earlier {
		if slices.Contains(s.Fixed, e.ID) {
			fmt.Fprintf(&b, "\n\nFixed since the last review: %s (`%s`)", e.Title, strings.ReplaceAll(e.Path, "`", "'"))
			if !slices.Contains(out.Resolve, e.ThreadID) {
				out.Resolve = append(out.Resolve, e.ThreadID)
			}
		}
	}
	out.Resolve = slices.DeleteFunc(out.Resolve, func(id string) bool { // Gitea has one thread for all comments on a line
		return slices.ContainsFunc(of.Earlier, func(e agent.EarlierFinding) bool { return e.ThreadID == id && !slices.Contains(s.Fixed, e.ID) })
	})
	out.Body = clean(b.String())
	if link := d.Link(s.Agent.ID); link != "" {
		out.Body += fmt.Sprintf("%s[%s](%s).</sub>", signatureBegin, escaped.Replace(oneLine(clean(s.Agent.Name))), link)
		out.Status.URL = link
	}
	out.Status.Summary = counts
	worst, open := len(severityWords), 0
	for _, f := range s.Findings {
		worst = min(worst, rank(f.Severity))
	}
	for _, e := range of.Earlier {
		if !slices.Contains(s.Fixed, e.ID) {
			open++
			worst = min(worst, rank(e.Severity))
		}
	}
	if open > 0 {
		out.Status.Summary += fmt.Sprintf("; %d from earlier reviews open", open)
	}
	out.Status.Failed = d.FailOn != "" && worst <= rank(d.FailOn)
	return out, nil
}

// rank returns the position of a severity, the most severe first.
func rank(s agent.Severity) int {
	for i, w := range severityWords {
		if w.severity == s {
			return i
		}
	}
	return len(severityWords)
}

// countsOf returns how many findings there are of each severity, in words.
func countsOf(findings []agent.Finding) string {
	var parts []string
	for _, w := range severityWords {
		n := 0
		for _, f := range findings {
			if f.Severity == w.severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(w.word)))
		}
	}
	switch len(findings) {
	case 0:
		return "no new findings"
	case 1:
		return "1 finding (" + parts[0] + ")"
	}
	return fmt.Sprintf("%d findings (%s)", len(findings), strings.Join(parts, ", "))
}

// reviewHost is a forge at which Aloft can post reviews.
type reviewHost interface {
	forge.Posting
	forge.Discussion
	forge.Reviewed
}

// PostReview posts a journaled review on the pull request, resolves threads and
// sets the status of the commit. It is idempotent: it does not post anything
// that the forge already has. The error is a fault.
func (d *Desk) PostReview(ctx context.Context, of agent.ReviewedPull, n agent.ReviewComposed) (agent.ReviewPosted, error) {
	f, r, err := d.forge(of.RepoURL)
	if err != nil {
		return agent.ReviewPosted{}, err
	}
	host, ok := f.(reviewHost)
	if !ok {
		return agent.ReviewPosted{}, fault.Invalid("Aloft cannot post reviews at %s", r.Host).Named(forge.CodeUnsupported)
	}
	var out agent.ReviewPosted
	err = retry(ctx, waits, func() (err error) {
		out, err = d.postOnce(ctx, host, r, of, n)
		return err
	})
	if err != nil {
		return agent.ReviewPosted{}, err
	}
	for _, id := range n.Resolve {
		if err := retry(ctx, waits, func() error { return resolve(ctx, host, r, of, id) }); err != nil {
			out.Remarks = append(out.Remarks, failedTo("a thread of an earlier finding was not resolved", err))
		}
	}
	status := forge.Status{Name: statusName, State: forge.Neutral, Summary: n.Status.Summary, URL: n.Status.URL}
	if n.Status.Failed {
		status.State = forge.Failure
	}
	if err := retry(ctx, waits, func() error { return host.SetStatus(ctx, r, of.Commit, status) }); err != nil {
		out.Remarks = append(out.Remarks, failedTo("the status of the commit was not set", err))
	}
	if ctx.Err() != nil {
		return agent.ReviewPosted{}, context.Cause(ctx) // the remarks report only that the server stops
	}
	d.seen.forget(of.URL)
	return out, nil
}

func failedTo(what string, err error) string { return what + ": " + fault.Of(err).Message }

// postOnce posts the parts of the review that the pull request does not have
// yet.
func (d *Desk) postOnce(ctx context.Context, host reviewHost, r forge.Repo, of agent.ReviewedPull, n agent.ReviewComposed) (agent.ReviewPosted, error) {
	number := int(of.Number)
	c, done, err := forge.Posted(ctx, host, r, number, n.Mark)
	if err != nil || done {
		return agent.ReviewPosted{URL: c.URL}, err
	}
	threads, err := host.Threads(ctx, r, number)
	if err != nil {
		return agent.ReviewPosted{}, err
	}
	review := forge.NewReview{Commit: of.Commit, Body: n.Body, Mark: n.Mark}
	for _, c := range n.Comments {
		if d.isThere(threads, &of, c) {
			continue
		}
		review.Comments = append(review.Comments, forge.LineComment{Path: c.Path, OldPath: c.OldPath, StartLine: c.StartLine, Line: c.Line, OldSide: c.OldSide, OtherLine: c.OtherLine,
			Body: c.Body, Suggestion: c.Suggestion, Mark: c.Mark})
	}
	posted, err := host.PostReview(ctx, r, number, review)
	if err == nil || fault.Of(err).Code != forge.CodeRefused {
		return agent.ReviewPosted{URL: posted.URL}, err
	}
	d.Logger.WarnContext(ctx, "a review is posted as one comment, because the forge refuses comments on the lines", "url", of.URL, "error", err)
	posted, err = host.Comment(ctx, r, number, plainReview(n.Body, review.Comments)+"\n"+n.Mark)
	return agent.ReviewPosted{URL: posted.URL, Plain: true}, err
}

// isThere reports whether the pull request already has an equal comment.
// Another agent that reviewed an earlier commit at the same time, or an
// interrupted attempt, may have added it.
func (d *Desk) isThere(threads []forge.Thread, of *agent.ReviewedPull, c agent.ReviewComment) bool {
	return slices.ContainsFunc(threads, func(t forge.Thread) bool {
		body := t.Comments[0].Body
		return strings.Contains(body, c.Mark) || !t.Resolved && t.Path == c.Path && d.findingOf(of, body) != "" && titleOf(body) == titleOf(c.Body)
	})
}

// plainReview returns the text of a review in one comment.
func plainReview(body string, comments []forge.LineComment) string {
	var b strings.Builder
	b.WriteString(body)
	for _, c := range comments {
		at := fmt.Sprintf("%d", c.Line)
		if c.StartLine < c.Line {
			at = fmt.Sprintf("%d-%d", c.StartLine, c.Line)
		}
		fmt.Fprintf(&b, "\n\n---\n\n`%s:%s`\n\n%s", strings.ReplaceAll(c.Path, "`", "'"), at, c.Body)
		if c.Suggestion != "" {
			b.WriteString("\n\n" + forge.Fenced("", c.Suggestion))
		}
	}
	return cut(b.String(), maxPlainReview)
}

// resolve resolves the thread of an earlier finding. If the forge cannot
// resolve threads, it replies once.
func resolve(ctx context.Context, f forge.Reviewed, r forge.Repo, of agent.ReviewedPull, threadID string) error {
	err := f.Resolve(ctx, r, int(of.Number), threadID)
	if err == nil || fault.Is(err, fault.KindNotFound) { // if not found, somebody has deleted the thread
		return nil
	}
	if fault.Of(err).Code != forge.CodeUnsupported {
		return err
	}
	threads, err := f.Threads(ctx, r, int(of.Number))
	if err != nil {
		return err
	}
	mark := forge.Mark("fixed " + of.Commit)
	for _, t := range threads {
		if t.ID == threadID && slices.ContainsFunc(t.Comments, func(c forge.Comment) bool { return strings.Contains(c.Body, mark) }) {
			return nil
		}
	}
	_, err = f.Reply(ctx, r, int(of.Number), threadID, fmt.Sprintf("Fixed in %s.\n%s", of.Commit, mark))
	return err
}
