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
// the threads of runs that have pushed a commit. If a host does not support
// replies to threads, it adds one comment to the pull request instead. Marks
// identify replies that an earlier attempt has added.
func (d *Desk) answer(ctx context.Context, a agent.Agent, url string, s snapshot, h history) error {
	for runID, ids := range h.threads {
		run, err := d.Store.Run(ctx, a.ID, runID)
		if err != nil {
			return err
		}
		text, pushed, err := d.report(ctx, a, run, s)
		if err != nil {
			return err
		}
		if f, ok := s.forge.(forge.Reviewed); ok && text != "" {
			o := reply{f, s, forge.Mark(runID), text, pushed}
			var left []forge.Thread
			for _, id := range ids {
				at := slices.IndexFunc(s.threads, func(t forge.Thread) bool { return t.ID == id })
				if at < 0 {
					continue // somebody has deleted the thread
				}
				done, err := o.thread(ctx, s.threads[at], h.replied[runID+" "+id])
				if err != nil {
					return err
				}
				if !done {
					left = append(left, s.threads[at])
				}
			}
			if err := o.comment(ctx, left); err != nil {
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

// reply holds the text of the reply after a run.
type reply struct {
	forge    forge.Reviewed
	snapshot snapshot
	mark     string
	text     string
	resolve  bool
}

// thread replies to a thread, unless the agent itself has done so, and resolves
// it. It returns false if the host has no replies.
func (o reply) thread(ctx context.Context, t forge.Thread, replied bool) (done bool, err error) {
	done = replied || slices.ContainsFunc(t.Comments, func(c forge.Comment) bool { return strings.Contains(c.Body, o.mark) })
	if !done {
		_, err := o.forge.Reply(ctx, o.snapshot.repo, o.snapshot.pull.Number, t.ID, o.text+"\n"+o.mark)
		if unlessImpossible(err) != nil {
			return false, err
		}
		done = err == nil
	}
	if !o.resolve || t.Resolved {
		return done, nil
	}
	return done, unlessImpossible(o.forge.Resolve(ctx, o.snapshot.repo, o.snapshot.pull.Number, t.ID))
}

// comment adds a comment about threads that cannot be replied to.
func (o reply) comment(ctx context.Context, about []forge.Thread) error {
	f, ok := o.snapshot.forge.(forge.Discussion)
	if !ok || len(about) == 0 || slices.ContainsFunc(o.snapshot.comments, func(c forge.Comment) bool { return strings.Contains(c.Body, o.mark) }) {
		return nil
	}
	var b strings.Builder
	b.WriteString("About")
	for i, t := range about {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " `%s` line %d", strings.ReplaceAll(t.Path, "`", ""), t.Line)
	}
	_, err := f.Comment(ctx, o.snapshot.repo, o.snapshot.pull.Number, b.String()+":\n\n"+o.text+"\n"+o.mark)
	return err
}

// unlessImpossible returns the error, or nil if a retry cannot succeed: the
// host does not support or allow the request, or the thread is gone.
func unlessImpossible(err error) error {
	if err != nil && (fault.Of(err).Code == forge.CodeUnsupported || fault.Is(err, fault.KindDenied) || fault.Is(err, fault.KindNotFound)) {
		return nil
	}
	return err
}

// report returns the reply after a run, and whether the run has pushed a
// commit. The text is "" if there is nothing to reply.
func (d *Desk) report(ctx context.Context, a agent.Agent, run agent.Run, s snapshot) (text string, pushed bool, err error) {
	for _, b := range run.Branches {
		if b.RepoURL == s.repoURL && b.Branch == s.pull.Head && b.Commit != "" {
			text, pushed = fmt.Sprintf("Changed in %s.", b.Commit), true
		}
	}
	if run.Status != agent.Finished {
		return "", false, nil // the agent's page shows the failure
	}
	shown := true
	if d.Shown != nil {
		if shown, err = d.Shown(ctx, a, run); err != nil {
			return "", false, err
		}
	}
	if result := strings.TrimSpace(run.Result); shown && result != "" {
		text = strings.TrimSpace(text + "\n\n" + forge.Cut(result, maxReply))
	}
	return d.clean(a.ID, text), pushed, nil
}
