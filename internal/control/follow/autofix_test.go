package follow

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

// Once all checks have ended, a failed check becomes a follow-up with the end
// of its log. The agent tries once to fix each commit.
func TestFailedCheck(t *testing.T) {
	w := newWorld(t)
	head := w.head()
	w.check(head, "test", forge.Failure)
	w.check(head, "lint", forge.Pending)
	w.quiet("while a check runs")
	w.check(head, "lint", forge.Success)
	runID, text := w.prompt()
	for _, want := range []string{"Fix the failed checks of pull request 1\n", head[:12], `Check "test"`, "\n> --- FAIL: TestList of " + head + "\n", "Do not change the CI configuration"} {
		if !strings.Contains(text, want) {
			t.Errorf("the prompt lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, token) || strings.Contains(text, "lint") {
		t.Errorf("the prompt is\n%s", text)
	}
	next := w.end(runID, "Fixed the list.", true)
	w.quiet("before the next checks")
	w.check(next, "test", forge.Success)
	w.quiet("the checks pass")
	if why := w.stopped(); why != "" {
		t.Errorf("stopped: %s", why)
	}
}

// A check that never ends does not hide a check that failed long ago.
func TestCheckThatNeverEnds(t *testing.T) {
	w := newWorld(t)
	w.forge.SetCheck(w.repo, w.head(), forge.Check{Name: "deploy", State: forge.Pending})
	w.forge.SetCheck(w.repo, w.head(), forge.Check{Name: "test", State: forge.Failure, EndedAt: time.Now()})
	w.quiet("at first")
	w.desk.now = func() time.Time { return time.Now().Add(checksLate + time.Minute) }
	w.prompt()
}

func TestCommentsAndChecksTogether(t *testing.T) {
	w := newWorld(t)
	w.check(w.head(), "test", forge.Failure)
	w.forge.Say(w.repo, 1, "ada", "And rename it.")
	if _, text := w.prompt(); !strings.Contains(text, "And rename it.") || !strings.Contains(text, "--- FAIL") || !strings.HasPrefix(text, "Address the comments on pull request 1 and fix its failed checks\n") {
		t.Errorf("the prompt is\n%s", text)
	}
}

func TestWhereAutofixStops(t *testing.T) {
	fail := func(w *world) { w.check(w.head(), "test", forge.Failure) }
	for _, tt := range []struct {
		name    string
		prepare func(w *world)
		stopped string // "" if autofix continues
	}{
		{"the base branch fails the same check", func(w *world) { w.check("base", "test", forge.Failure); fail(w) }, ""},
		{"it is off", func(w *world) {
			w.desk.Autofix = func(context.Context) (bool, error) { return false, nil }
			fail(w)
		}, ""},
		{"somebody else has pushed", func(w *world) { w.forge.Push(w.repo, branch); fail(w) }, "somebody else has pushed"},
		{"somebody else had pushed, then the agent", func(w *world) {
			w.forge.Push(w.repo, branch)
			w.quiet("somebody else's commit")
			w.append(store.Append{AgentID: w.id, Events: []agent.Event{{RunID: "run-2", Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "more")}}}})
			w.end("run-2", "Done.", true)
			fail(w)
		}, "somebody else has pushed"},
		{"a person has sent a prompt after a try", func(w *world) {
			fail(w)
			runID, _ := w.prompt()
			w.end(runID, "Tried.", true)
			w.append(store.Append{AgentID: w.id, Events: []agent.Event{{RunID: "run-2", Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "Let me.")}}}})
			w.end("run-2", "Done.", true)
			fail(w)
		}, "a person has continued"},
		{"a try has changed nothing", func(w *world) {
			fail(w)
			runID, _ := w.prompt()
			w.end(runID, "It is not my change. "+token, false)
		}, "the last attempt did not change the branch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.prepare(w)
			w.quiet(tt.name)
			w.quiet("again")
			if why := w.stopped(); !strings.Contains(why, tt.stopped) || (why == "") != (tt.stopped == "") {
				t.Errorf("stopped: %q", why)
			}
		})
	}
}

// A prompt before the first attempt does not stop autofix.
func TestPromptBeforeTheFirstTry(t *testing.T) {
	w := newWorld(t)
	w.append(store.Append{AgentID: w.id, Events: []agent.Event{{RunID: "run-2", Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "more")}}}})
	head := w.end("run-2", "Done.", true)
	w.check(head, "test", forge.Failure)
	w.prompt()
}

// After ten attempts the agent gives up. A single comment on the pull request
// says what it tried, even if the server dies right after it has posted the
// comment.
func TestGivesUp(t *testing.T) {
	w := newWorld(t)
	for n := range maxTries {
		w.check(w.head(), "test", forge.Failure)
		runID, _ := w.prompt()
		w.end(runID, fmt.Sprintf("Try number %d.", n+1), true)
	}
	w.check(w.head(), "test", forge.Failure)
	w.desk.Journal = &refusing{Journal: w.store, refuse: 1}
	w.read()
	w.quiet("the reading is repeated")
	w.quiet("after it has given up")
	if why := w.stopped(); why != "10 attempts did not fix the checks" {
		t.Errorf("stopped: %q", why)
	}
	said := slices.DeleteFunc(w.forge.Plain(w.repo, 1), func(c forge.Comment) bool { return c.Author != fake.Login })
	if len(said) != 1 {
		t.Fatalf("%d comments", len(said))
	}
	for _, want := range []string{"no longer tries", "10 attempts did not fix", "- test\n", "Try number 1.", "Try number 10."} {
		if !strings.Contains(said[0].Body, want) {
			t.Errorf("the comment lacks %q:\n%s", want, said[0].Body)
		}
	}
	w.forge.Say(w.repo, 1, "ada", "Look at the clock.")
	if _, text := w.prompt(); strings.Contains(text, "--- FAIL") {
		t.Errorf("checks are still fixed:\n%s", text)
	}
}

// refusing is a journal that rejects writes for a while.
type refusing struct {
	store.Journal
	refuse int
}

func (r *refusing) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	if r.refuse > 0 {
		r.refuse--
		return nil, store.ErrFull
	}
	return r.Journal.Append(ctx, a)
}

func TestLogsAreBounded(t *testing.T) {
	w := newWorld(t)
	for n := range maxChecks + 3 {
		name := fmt.Sprintf("check-%02d", n)
		w.check(w.head(), name, forge.Failure)
		w.forge.SetLog(w.repo, "job-"+w.head()+name, strings.Repeat("a line of the log\n", 4000)+"the end of "+name+"\n")
	}
	_, text := w.prompt()
	if len(text) > maxLogs*(maxLogText*5/4)+8<<10 || strings.Count(text, "> the end of ") != maxLogs || strings.Count(text, "\nCheck ") != maxChecks {
		t.Errorf("%d bytes, %d logs, %d checks", len(text), strings.Count(text, "> the end of "), strings.Count(text, "\nCheck "))
	}
}
