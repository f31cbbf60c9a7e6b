package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/prompt"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// finish commits uncommitted changes, runs the checks, pushes the branches and
// ends the run. It is idempotent, so it can be repeated after a crash. If a
// check fails, if tasks are open, if the goal is not met, if a push is refused
// because of a secret, or if git hooks refuse, the model is told and the run
// continues. Other failures do not stop the other repositories: finish pushes
// everything that it can, then reports the error. A pull request that cannot be
// opened is only reported and does not fail the run. The context limited
// applies to the checks and the goal, ctx to everything else.
func (l *Loop) finish(limited, ctx context.Context) error {
	if notified, err := l.grind(limited); err != nil || notified {
		return err
	}
	s := l.rec.Snapshot()
	if !s.CheckedNow() { // otherwise the stop hooks have run
		if on, err := l.continues(ctx); err != nil || on {
			return err
		}
	}
	if s.Review != nil { // there is nothing to commit, check or push
		if err := l.requests.PostReview(ctx, true); err != nil {
			return err
		}
		return l.wrapUp(ctx, "completed", &agent.RunEnded{Status: agent.Finished, Result: l.result()})
	}
	if len(s.Agent.Repos) > 0 {
		if err := l.own.reach(ctx); err != nil {
			return err
		}
	}
	if notified, err := l.check(limited); err != nil || notified {
		return err
	}
	notified, failed, err := l.deliverAll(ctx, false)
	if err == nil && !notified && failed == nil {
		notified, err = l.judge(limited)
	}
	if err != nil || notified {
		return err
	}
	if l.rec.Snapshot().Agent.Pull.Auto {
		l.keep(ctx) // the pull request names the artifacts
	}
	if err := l.requests.Propose(ctx); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return l.wrapUp(ctx, "completed", &agent.RunEnded{Status: agent.Finished, Result: l.result()})
}

// wrapUp ends a run whose work is delivered. It stores the artifacts before the
// last event.
func (l *Loop) wrapUp(ctx context.Context, reason string, ended *agent.RunEnded) error {
	l.tellEnd(ctx, reason)
	last, cancel := journal.Outliving(ctx)
	defer cancel()
	l.keep(last)
	return l.conclude(ctx, reason, ended)
}

// deliverAll commits and pushes every repository as far as possible. failed is
// the first error. notified means that the model was asked to fix a push, so
// the rest of finish must wait. last tells deliverAll that the model will not
// be asked again.
func (l *Loop) deliverAll(ctx context.Context, last bool) (notified bool, failed, err error) {
	if l.rec.Snapshot().Review != nil { // a reviewer delivers nothing but its findings
		return false, nil, l.requests.PostReview(ctx, !last)
	}
	for n := range l.rec.Snapshot().Agent.Repos {
		notified, err := l.deliver(ctx, n, last)
		switch {
		case notified:
			return true, failed, nil
		case err == nil:
		case errors.Is(err, remote.ErrLost), ctx.Err() != nil, fault.Of(err).Kind == fault.KindInternal:
			return false, failed, err
		case failed == nil:
			failed = err
		}
	}
	return false, failed, nil
}

// commit commits uncommitted changes in the agent's n-th repository. notified
// means that git hooks refused and the model was asked to fix it; last tells
// commit that the model will not be asked again.
func (l *Loop) commit(ctx context.Context, n int, last bool) (done remote.Delivered, notified bool, err error) {
	s := l.rec.Snapshot()
	privacy, err := l.privacy(ctx)
	if err != nil {
		return done, false, err
	}
	message := commitMessage(s)
	if privacy {
		message = "Changes by Aloft agent " + s.Agent.ID
	}
	done, notified, err = l.hooked(ctx, last, func(skipHooks bool) (remote.Delivered, error) {
		return l.own.machine.Commit(ctx, n, message, skipHooks)
	})
	switch {
	case notified:
		return done, true, err
	case err != nil:
		return done, false, fmt.Errorf("commit: %w", err)
	case done.Made:
		err = l.rec.Record(ctx, &agent.Committed{RepoURL: s.Agent.Repos[n].URL, Commit: done.Commit, Message: message, Unhooked: done.Note})
	}
	return done, false, err
}

// deliver commits uncommitted changes in the agent's n-th repository and pushes
// its branch. It does not commit changes that checks have made in the working
// tree. If there are several repositories, it pushes only those that the agent
// has changed. notified means that the push was refused and the model was asked
// to fix it; last tells deliver that the model will not be asked again.
func (l *Loop) deliver(ctx context.Context, n int, last bool) (notified bool, err error) {
	s := l.rec.Snapshot()
	url, was, several := s.Agent.Repos[n].URL, s.Checkout(n), len(s.Agent.Repos) > 1
	var done remote.Delivered
	if s.CheckedNow() && n < len(s.Checking.Commits) {
		done.Commit = s.Checking.Commits[n].Commit
	} else if done, notified, err = l.commit(ctx, n, last); notified || err != nil {
		return notified, err
	}
	if several && done.Commit == was.BaseCommit && !was.Pushed {
		return false, nil
	}
	if slices.Contains(s.Run.Branches, agent.Branch{RepoURL: url, Branch: was.Branch, Commit: done.Commit}) {
		return false, nil // pushed before a crash
	}
	done, notified, err = l.hooked(ctx, last, func(skipHooks bool) (remote.Delivered, error) {
		return l.own.machine.Push(ctx, n, was.Branch, skipHooks)
	})
	if notified {
		return true, err
	}
	if f := fault.Of(err); err != nil && f.Code == journal.SecretInPush && l.rec.Refusals() < maxRefusals {
		why := f.Message
		if several {
			why = url + ": " + why
		}
		return true, l.rec.Record(ctx, &agent.Notice{Text: prompt.RefusedPush(was.BaseCommit, why), Code: f.Code})
	}
	if err != nil {
		if several {
			return false, fmt.Errorf("push %s: %w", url, err)
		}
		return false, fmt.Errorf("push: %w", err)
	}
	return false, l.rec.Record(ctx, &agent.Pushed{RepoURL: url, Branch: was.Branch, Commit: done.Commit, Unhooked: done.Note})
}

// maxRefusals is how often in a run the model is asked to fix a push.
const maxRefusals = 3

// subjectLen is the length that git's tools expect for the first line of a
// commit message.
const subjectLen = 72

// commitMessage returns a commit message for the task. The subject is the
// beginning of the task. If the subject is too short for the task, the body is
// the whole task.
func commitMessage(s *agent.State) string {
	var task string
	if n := len(s.Asked); n > 0 {
		task = s.Asked[n-1]
	}
	task = strings.TrimSpace(task)
	subject, _, _ := strings.Cut(task, "\n")
	subject = strings.TrimSpace(subject)
	if r := []rune(subject); len(r) > subjectLen {
		subject = strings.TrimSpace(string(r[:subjectLen-1])) + "…"
	}
	if subject == "" {
		return s.Agent.Name
	}
	if subject == task || s.By == agent.ByPullRequest { // do not publish pull request comments by others in a commit
		return subject
	}
	return subject + "\n\n" + compact.Cut(task, 4000)
}

// keep stores the machine's artifacts before the run's end is announced. A
// failure does not fail the run: the files are still in the machine, and the
// next run stores them.
func (l *Loop) keep(ctx context.Context) {
	if l.own.machine == nil {
		return
	}
	if l.rec.Snapshot().Recorded {
		l.endRecording(ctx)
	}
	if err := l.own.machine.Keep(ctx); err != nil {
		l.Logger.Warn("cannot store the artifacts", "error", err)
	}
}

// recordingTimeout is the timeout for ending a recording.
const recordingTimeout = 10 * time.Second

// endRecording ends a recording of the desktop that was neither saved nor
// discarded. The recorded part stays in the machine for a later run.
func (l *Loop) endRecording(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordingTimeout)
	defer cancel()
	c := conversation.ToolCall{ID: "end_" + l.rec.RunID(), Name: agent.RecordTool, Args: []byte(`{"mode":"RECORDING_MODE_UNSPECIFIED"}`)}
	_, _, err := l.own.machine.Call(ctx, c, func(remote.Delta) {})
	if err == nil {
		err = l.own.machine.Ack(ctx, c.ID)
	}
	if err != nil {
		l.Logger.Warn("cannot end a recording; it may still be running", "error", err)
	}
}

// keepTimeout is the timeout for storing the artifacts of an unfinished run,
// whose end was already announced.
const keepTimeout = 30 * time.Second
