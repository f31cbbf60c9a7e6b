package pull

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/patch"
)

// codePrivate is the fault code for reviews that may not be posted.
const codePrivate = "privacy_mode"

// Reviewable returns the review task for an open pull request, and the commit on
// which its changes are based. repoURL is the result of [Desk.RepoOf]. The error is
// a fault.
func (d *Desk) Reviewable(ctx context.Context, repoURL, prURL string) (task *agent.ReviewTask, base string, err error) {
	_, number, err := forge.ParsePullRequestURL(prURL)
	if err != nil {
		return nil, "", err
	}
	f, r, err := d.forge(repoURL)
	if err != nil {
		return nil, "", err
	}
	if _, ok := f.(forge.Posting); !ok || d.Mark == nil {
		return nil, "", fault.Invalid("Aloft cannot post reviews at %s", r.Host).Named(forge.CodeUnsupported)
	}
	if err := d.mayPost(ctx, agent.Agent{CreatedAt: time.Now()}, agent.Run{CreatedAt: time.Now()}); err != nil {
		return nil, "", err
	}
	p, err := f.Get(ctx, r, number)
	switch {
	case err != nil:
		return nil, "", err
	case p.State != forge.Open:
		return nil, "", fault.Conflict("%s is %s", p.URL, p.State).Named(codeClosed).Hint("only open pull requests are reviewed")
	case p.HeadCommit == "" || p.Base == "":
		return nil, "", fault.Unavailable("%s does not know the commit of %s yet", r.Host, p.URL).Named(forge.CodeUnreachable).Hint("try again in a minute")
	}
	change, err := d.Git.Change(ctx, repoURL, "refs/heads/"+p.Base, p.HeadCommit, patch.Max)
	if err != nil {
		return nil, "", err
	}
	switch {
	case len(change.Text) == 0:
		return nil, "", fault.Conflict("%s changes nothing", p.URL).Named(agent.CodeNoChanges)
	case !utf8.Valid(change.Text):
		return nil, "", fault.Invalid("%s has text that is not UTF-8", p.URL).Hint("review a part of it with `aloft review`")
	}
	if _, err := patch.Parse(string(change.Text)); err != nil {
		return nil, "", fmt.Errorf("the diff of %s: %w", p.URL, err)
	}
	of := &agent.ReviewedPull{URL: p.URL, RepoURL: repoURL, Number: int64(number), Commit: p.HeadCommit}
	if err := d.addEarlier(ctx, f, r, of); err != nil {
		return nil, "", err
	}
	return &agent.ReviewTask{Patch: string(change.Text), PullRequest: of}, change.Base, nil
}

// mayPost returns a fault if the text of an agent may not be shown outside.
func (d *Desk) mayPost(ctx context.Context, a agent.Agent, r agent.Run) error {
	private, err := d.privacy(ctx, r)
	if err != nil {
		return err
	}
	if private {
		return fault.Denied("in privacy mode, the server posts no reviews").Named(codePrivate).Hint("use `aloft review` in a checkout, which posts nothing")
	}
	if d.Shown == nil {
		return nil
	}
	shown, err := d.Shown(ctx, a, r)
	if err == nil && !shown {
		err = fault.Denied("the team's settings hide what agents write, so that the server posts no reviews").Named(codePrivate).
			Hint("use `aloft review` in a checkout, which posts nothing, or ask an admin to change the display setting")
	}
	return err
}

// Marks of reviews and findings. Only the server can compute the first word of
// a mark, so that nobody can forge a review.
var (
	reviewMark  = regexp.MustCompile(`<!-- aloft review ([0-9a-f]+) (bc-[0-9a-f-]+) (run-[0-9A-Za-z-]+) ([0-9a-f]{40,64}) -->`)
	findingMark = regexp.MustCompile(`<!-- aloft finding ([0-9a-f]+) (bc-[0-9a-f-]+) (F-\d+) -->`)
)

// markReview returns the mark of the review of a commit.
func (d *Desk) markReview(of *agent.ReviewedPull, agentID, runID string) string {
	key := d.Mark("review", of.RepoURL, fmt.Sprint(of.Number), agentID, runID, of.Commit)
	return forge.Mark(strings.Join([]string{"review", key, agentID, runID, of.Commit}, " "))
}

// markFinding returns the mark of the comment for a finding.
func (d *Desk) markFinding(of *agent.ReviewedPull, agentID, findingID string) string {
	key := d.Mark("finding", of.RepoURL, fmt.Sprint(of.Number), agentID, findingID)
	return forge.Mark(strings.Join([]string{"finding", key, agentID, findingID}, " "))
}

// findingOf returns the mark of a comment that is a finding on the pull request, or
// "".
func (d *Desk) findingOf(of *agent.ReviewedPull, body string) string {
	m := findingMark.FindStringSubmatch(body)
	if m == nil || m[0] != d.markFinding(of, m[2], m[3]) {
		return ""
	}
	return m[0]
}

// reviewedCommit returns the commit that a comment says was reviewed, or "".
func (d *Desk) reviewedCommit(of *agent.ReviewedPull, body string) string {
	m := reviewMark.FindStringSubmatch(body)
	if m == nil {
		return ""
	}
	then := *of
	then.Commit = m[4]
	if !strings.Contains(body, d.markReview(&then, m[2], m[3])) {
		return ""
	}
	return m[4]
}

// titleOf returns the title of a finding from its comment.
func titleOf(body string) string {
	line, _, _ := strings.Cut(body, "\n")
	return forge.Line(strings.Trim(line, "* "), 300)
}

// addEarlier adds the findings of earlier reviews of the pull request, and the
// lines that were changed since the last review, from the forge. If the commit
// of the last review is gone, all lines count as changed.
func (d *Desk) addEarlier(ctx context.Context, f forge.Forge, r forge.Repo, of *agent.ReviewedPull) error {
	discussion, ok := f.(forge.Discussion)
	reviewed, ok2 := f.(forge.Reviewed)
	if !ok || !ok2 {
		return nil
	}
	all, err := discussion.Comments(ctx, r, int(of.Number))
	if err != nil {
		return err
	}
	last := ""
	for _, c := range all {
		if commit := d.reviewedCommit(of, c.Body); commit != "" {
			last = commit
		}
	}
	if last == "" {
		return nil
	}
	threads, err := reviewed.Threads(ctx, r, int(of.Number))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, t := range threads { // oldest first, so that a mark comes before copies of it by others
		mark := d.findingOf(of, t.Comments[0].Body)
		if mark == "" || seen[mark] {
			continue
		}
		if seen[mark] = true; t.Resolved {
			continue
		}
		e := agent.EarlierFinding{ID: fmt.Sprintf("E-%d", len(of.Earlier)+1), ThreadID: t.ID, Path: t.Path, Title: titleOf(t.Comments[0].Body)}
		for _, w := range severityWords {
			if strings.HasPrefix(e.Title, w.word+": ") {
				e.Severity = w.severity
			}
		}
		if !t.Outdated && !t.OldSide {
			e.Line = t.Line
		}
		of.Earlier = append(of.Earlier, e)
	}
	if last == of.Commit {
		return nil // the same commit again: the owner wants a complete review
	}
	since, err := d.Git.Change(ctx, of.RepoURL, last, of.Commit, patch.Max)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		d.Logger.InfoContext(ctx, "the whole pull request is reviewed again", "url", of.URL, "since", last, "error", err)
		return nil
	}
	changed := patch.Patch{}
	if len(since.Text) > 0 {
		if changed, err = patch.Parse(string(since.Text)); err != nil {
			return errors.Join(fmt.Errorf("the diff of %s since %s", of.URL, last), err)
		}
	}
	of.Since = last
	for _, l := range changed.Changed() {
		of.Changed = append(of.Changed, agent.ChangedLines(l))
	}
	return nil
}
