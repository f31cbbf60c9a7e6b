package loop_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/remote"
	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

func secretIn(path string) error {
	return fault.Denied("push: the commits contain a secret: %s in commit c0ffee", path).Named("secret_in_push").Hint("send a follow-up")
}

// The model learns that its push contains a secret, and fixes the commit.
func TestARefusedPushIsMended(t *testing.T) {
	r := newRig(t, true)
	pushes := 0
	r.machine.pushed = func() error {
		if pushes++; pushes == 1 {
			return secretIn("leak.env")
		}
		return nil
	}
	r.model.steps = []step{say("done"), use(`Shell {"command":"git reset --soft HEAD~"}`), say("mended")}
	run := r.work(t.Context())
	if run.Status != agent.Finished || run.Result != "mended" || pushes != 2 {
		t.Errorf("after %d pushes: %+v", pushes, run)
	}
	heard := r.model.requests[1].Messages
	if words := heard[len(heard)-1].PlainText(); !strings.Contains(words, "leak.env in commit c0ffee") || !strings.Contains(words, "git reset --soft") {
		t.Errorf("the model was told %q", words)
	}
}

// The model gets at most three such messages per run, even if another server
// continues the run.
func TestARefusedPushIsNotMendedForEver(t *testing.T) {
	r := newRig(t, true)
	r.machine.pushed = func() error { return secretIn("leak.env") }
	ctx, stop := context.WithCancelCause(t.Context())
	r.model.steps = []step{say("done"), say("so what"), func(yield func(model.Event, error) bool) {
		stop(loop.ErrStop)
		yield(model.Event{}, context.Canceled)
	}}
	if err := loop.Run(ctx, r.id, r.config()); !errors.Is(err, loop.ErrStop) {
		t.Fatal(err)
	}
	r.model.requests, r.model.steps = nil, []step{say("no"), say("never")}
	run := r.work(t.Context())
	if run.Status != agent.Failed || run.Failure.Code != "secret_in_push" || run.Failure.Hint == "" {
		t.Errorf("%+v", run)
	}
	if n := len(bodies[*agent.Notice](r)); n != 3 {
		t.Errorf("the model was told %d times", n)
	}
}

// If the context's cause is a fault, it becomes the run's error.
func TestAFaultEndsTheRun(t *testing.T) {
	r := newRig(t, true)
	ctx, stop := context.WithCancelCause(t.Context())
	r.model.steps = []step{func(yield func(model.Event, error) bool) {
		stop(fault.Exhausted("the disk").Named("disk_limit").Hint("tidy up"))
		yield(model.Event{}, context.Canceled)
	}}
	run := r.work(ctx)
	if run.Status != agent.Failed || run.Failure.Code != "disk_limit" || run.Failure.Hint != "tidy up" {
		t.Errorf("%+v", run)
	}
}

// The commit message of a follow-up from a pull request does not contain other
// people's text.
func TestCommitMessageOfAFollowUp(t *testing.T) {
	r := newRig(t, true)
	r.machine.hook = func(what string, _ bool) (remote.Delivered, error) {
		return remote.Delivered{Commit: "c0ffee" + r.run, Made: what == "commit"}, nil
	}
	r.model.steps = []step{say("done"), say("renamed")}
	r.work(t.Context())
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{By: agent.ByPullRequest, Prompt: conversation.Text(conversation.User, "Address the comments on pull request 1\n\nada wrote:\n> Rename it.\n")})
	r.work(t.Context())
	all := bodies[*agent.Committed](r)
	if len(all) != 2 || all[1].Message != "Address the comments on pull request 1" {
		t.Errorf("%+v", all)
	}
}
