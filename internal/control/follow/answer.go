package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// answer replies to the review threads of runs that have ended, and resolves
// those of runs that have pushed a commit. A reply that an earlier attempt has
// added is recognized by its mark.
func (d *Desk) answer(ctx context.Context, a agent.Agent, url string, s snapshot, h history) error {
	f, ok := s.forge.(forge.Reviewed)
	for runID, ids := range h.threads {
		run, err := d.Store.Run(ctx, a.ID, runID)
		if err != nil {
			return err
		}
		text, pushed, err := d.report(ctx, a, run, s)
		if err != nil {
			return err
		}
		for _, id := range ids {
			at := slices.IndexFunc(s.threads, func(t forge.Thread) bool { return t.ID == id })
			if !ok || at < 0 || text == "" {
				continue
			}
			if err := answerThread(ctx, f, s, s.threads[at], runID, text, h.said[runID+" "+id], pushed); err != nil {
				return err
			}
		}
		heard := &agent.PullRequestHeard{URL: url, Answered: runID}
		if _, err := d.Journal.Append(ctx, store.Append{AgentID: a.ID, Events: []agent.Event{{Body: heard}}}); err != nil {
			return err
		}
	}
	return nil
}

// answerThread replies to a thread, unless the agent itself has done so, and
// resolves it.
func answerThread(ctx context.Context, f forge.Reviewed, s snapshot, t forge.Thread, runID, text string, said, resolve bool) error {
	mark := fmt.Sprintf("<!-- aloft %s -->", runID)
	if !said && !slices.ContainsFunc(t.Comments, func(c forge.Comment) bool { return strings.Contains(c.Body, mark) }) {
		if _, err := f.Reply(ctx, s.repo, s.pull.Number, t.ID, text+"\n"+mark); err != nil {
			return unlessImpossible(err)
		}
	}
	if !resolve || t.Resolved {
		return nil
	}
	return unlessImpossible(f.Resolve(ctx, s.repo, s.pull.Number, t.ID))
}

// unlessImpossible returns the error, or nil if a repeat cannot succeed: the
// host cannot do this, does not allow it, or the thread is gone.
func unlessImpossible(err error) error {
	if err != nil && (fault.Of(err).Code == forge.CodeUnsupported || fault.Is(err, fault.KindDenied) || fault.Is(err, fault.KindNotFound)) {
		return nil
	}
	return err
}

// report returns what to reply after a run, and whether the run has pushed a
// commit. The text is "" if there is nothing to say.
func (d *Desk) report(ctx context.Context, a agent.Agent, run agent.Run, s snapshot) (text string, pushed bool, err error) {
	for _, b := range run.Branches {
		if b.RepoURL == s.repoURL && b.Branch == s.pull.Head && b.Commit != "" {
			text, pushed = fmt.Sprintf("Changed in %s.", b.Commit), true
		}
	}
	if run.Status != agent.Finished {
		return "", false, nil // a person sees the failure at the agent
	}
	shown := true
	if d.Shown != nil {
		if shown, err = d.Shown(ctx, a, run); err != nil {
			return "", false, err
		}
	}
	if said := strings.TrimSpace(run.Result); shown && said != "" {
		text = strings.TrimSpace(text + "\n\n" + forge.Cut(said, maxReply))
	}
	return d.clean(a.ID, text), pushed, nil
}
