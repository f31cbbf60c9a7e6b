package follow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// maxTries is how often an agent tries to fix the failed checks of one pull
// request.
const maxTries = 10

// autofix returns the failed checks that the agent has to fix, and adds the
// attempt to heard. If autofix stops for good, heard contains the reason, and a
// non-nil note adds a comment with it to the pull request.
//
// It stops when somebody else pushes to the branch or a person sends a prompt
// after the first try, and gives up after ten tries or if a try changed
// nothing. It ignores checks that fail on the base branch, too.
func (d *Desk) autofix(ctx context.Context, a agent.Agent, repoURL string, s snapshot, h history, heard *agent.PullRequestHeard) (failed []forge.Check, note func(context.Context) error, err error) {
	head := s.pull.HeadCommit
	if h.stopped != "" || head == "" {
		return nil, nil, nil
	}
	if !slices.Contains(h.pushed, head) {
		heard.Stopped = fmt.Sprintf("somebody else has pushed %s to the branch", short(head))
		return nil, nil, nil
	}
	if failed = s.failed(); len(failed) == 0 {
		return nil, nil, nil
	}
	if d.Autofix != nil {
		if on, err := d.Autofix(ctx); err != nil || !on {
			return nil, nil, err
		}
	}
	if h.person {
		heard.Stopped = "a person has continued the agent's work"
		return nil, nil, nil
	}
	if failed, err = d.notOfBase(ctx, repoURL, s, failed); err != nil || len(failed) == 0 {
		return nil, nil, err
	}
	switch {
	case h.try(head) != nil:
		heard.Stopped = "the last attempt did not change the branch"
	case len(h.tries) >= maxTries:
		heard.Stopped = fmt.Sprintf("%d attempts did not fix the checks", maxTries)
	default:
		heard.Fix = head
		for _, c := range failed {
			heard.Checks = append(heard.Checks, c.Name)
		}
		return failed, nil, nil
	}
	left, why := failed, heard.Stopped
	return nil, func(ctx context.Context) error { return d.giveUp(ctx, a, s, h, left, why) }, nil
}

// notOfBase returns the checks without those that fail on the base branch, too.
func (d *Desk) notOfBase(ctx context.Context, repoURL string, s snapshot, failed []forge.Check) ([]forge.Check, error) {
	commit, err := d.Branch(ctx, repoURL, s.pull.Base)
	if err != nil {
		return nil, err
	}
	base, err := s.forge.Checks(ctx, s.repo, commit)
	if err != nil && !fault.Is(err, fault.KindNotFound) {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(failed), func(c forge.Check) bool {
		return slices.ContainsFunc(base, func(b forge.Check) bool { return b.Name == c.Name && b.State == forge.Failure })
	}), nil
}

// giveUp adds a comment with the agent's attempts to the pull request. It
// recognizes a comment that an earlier attempt has added.
func (d *Desk) giveUp(ctx context.Context, a agent.Agent, s snapshot, h history, failed []forge.Check, why string) error {
	f, ok := s.forge.(forge.Discussion)
	if !ok {
		return nil
	}
	mark := forge.Mark("autofix " + a.ID)
	if slices.ContainsFunc(s.comments, func(c forge.Comment) bool { return strings.Contains(c.Body, mark) }) {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The agent that opened this pull request no longer tries to fix its failed checks: %s.\n\nStill failing on %s:\n", why, short(s.pull.HeadCommit))
	for _, c := range failed[:min(len(failed), maxChecks)] {
		fmt.Fprintf(&b, "- %s\n", c.Name)
	}
	if len(h.tries) > 0 {
		b.WriteString("\nWhat it tried:\n")
	}
	for i, t := range h.tries {
		run, err := d.Store.Run(ctx, a.ID, h.runs[i])
		if err != nil {
			return err
		}
		report := "no report"
		shown := true
		if d.Shown != nil {
			if shown, err = d.Shown(ctx, a, run); err != nil {
				return err
			}
		}
		if shown {
			report = cmp.Or(forge.Line(run.Result, maxTold), report)
		}
		fmt.Fprintf(&b, "%d. on %s, for %s: %s\n", i+1, short(t.Fix), forge.Line(strings.Join(t.Checks, ", "), maxTold), report)
	}
	_, err := f.Comment(ctx, s.repo, s.pull.Number, d.clean(a.ID, b.String())+"\n"+mark)
	return err
}

func short(commit string) string { return commit[:min(len(commit), 12)] }
