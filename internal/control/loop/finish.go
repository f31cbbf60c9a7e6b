package loop

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/fault"
)

// finish commits what is left, pushes the branch and ends the run. A repeat of
// any part after a crash changes nothing. Where the push is refused for a secret
// the model is told, and the run goes on.
func (l *Loop) finish(ctx context.Context) error {
	s := l.rec.state
	if on, err := l.goesOn(ctx); err != nil || on {
		return err
	}
	if len(s.Agent.Repos) > 0 {
		if err := l.reach(ctx); err != nil {
			return err
		}
		message := commitMessage(s)
		commit, made, err := l.hands.Commit(ctx, message)
		if err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		if made {
			if err := l.rec.record(ctx, &agent.Committed{Commit: commit, Message: message}); err != nil {
				return err
			}
		}
		commit, err = l.hands.Push(ctx, s.Branch)
		if f := fault.Of(err); err != nil && f.Code == secretInPush && l.rec.refusals < maxRefusals {
			return l.rec.record(ctx, &agent.Notice{Text: refused(s, f.Message), Code: f.Code})
		}
		if err != nil {
			return fmt.Errorf("push: %w", err)
		}
		if err := l.rec.record(ctx, &agent.Pushed{RepoURL: s.Agent.Repos[0].URL, Branch: s.Branch, Commit: commit}); err != nil {
			return err
		}
	}
	l.ended(ctx, "completed")
	l.keep(ctx)
	return l.rec.record(ctx, &agent.RunEnded{Status: agent.Finished, Result: l.lastWords()})
}

// secretInPush is the code of a push that was refused for a secret in it.
const secretInPush = "secret_in_push"

// maxRefusals bounds how often in a run the model is asked to mend a push.
const maxRefusals = 3

// refused tells the model why its push was refused, and how to mend it.
func refused(s *agent.State, why string) string {
	return "Your branch was not pushed: " + why + "\nTake the value out of every commit since " + s.BaseCommit +
		", not only out of the files as they are now: for example `git reset --soft " + s.BaseCommit +
		"`, then remove it from the files, unstage what should not be there, and commit again. " +
		"Where it is needed at run time, read it from the environment. Do not write it in another form. The push is tried again when you finish."
}

// subjectLen is how long git's own tools expect the first line of a message to be.
const subjectLen = 72

// commitMessage says what was asked for: a subject, and the whole task below it
// where the subject does not hold it.
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
	if subject == task {
		return subject
	}
	return subject + "\n\n" + cut(task, 4000)
}

// keep copies artifacts, before the run's end is told. A failure of it is none of
// the run's: they are in the machine yet, and copied with the next.
func (l *Loop) keep(ctx context.Context) {
	if l.hands == nil {
		return
	}
	if err := l.hands.Keep(ctx); err != nil {
		l.Logger.Warn("artifacts are not kept", "error", err)
	}
}

// keepTimeout bounds how long artifacts of a run that did not finish may take,
// whose end is told already.
const keepTimeout = 30 * time.Second

func (l *Loop) keepAfter(ctx context.Context) {
	if !l.rec.state.Run.Status.Ended() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	l.ended(ctx, "completed")
	l.keep(ctx)
}
