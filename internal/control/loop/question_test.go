package loop_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/agent"
	"aloft/internal/control/loop"
	"aloft/internal/control/review"
	"aloft/internal/conversation"
	"aloft/internal/policy/permit"
	"aloft/internal/policy/sandbox"
)

const which = `AskQuestion {"title":"The store","questions":[{"id":"db","prompt":"Which?","options":[{"id":"pg","label":"PostgreSQL"},{"id":"lite","label":"SQLite"}]},{"id":"name","prompt":"Its name?"}]}`

// asked waits for the agent's only open question.
func (r *rig) asked() agent.Approval {
	r.t.Helper()
	q, err := r.question(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return q
}

// TestQuestions checks the answers to a question, and the result that the model
// gets.
func TestQuestions(t *testing.T) {
	for _, c := range []struct {
		name string
		said agent.ApprovalAnswered
		want string
	}{
		{"Options", agent.ApprovalAnswered{Decision: agent.Answered, UserID: 7, Answers: []agent.Answer{{QuestionID: "db", OptionIDs: []string{"lite"}, Text: "for now"}, {QuestionID: "name", Text: "store"}}},
			"Which?\n- lite: SQLite\nIn the user's words: for now\nIts name?\nIn the user's words: store\n"},
		{"InPart", agent.ApprovalAnswered{Decision: agent.Answered, UserID: 7, Answers: []agent.Answer{{QuestionID: "db", OptionIDs: []string{"pg"}}}},
			"Which?\n- pg: PostgreSQL\nIts name?\n  (no answer: decide yourself, and say in the end what you decided)\n"},
		{"InWords", agent.ApprovalAnswered{Decision: agent.Answered, UserID: 7, Message: "neither"}, "Which?\nIts name?\nThe user says: neither\n"},
		{"Left", agent.ApprovalAnswered{Decision: agent.Deny, UserID: 7}, "The user leaves it to you: decide yourself, and say in the end what you decided."},
		{"PassedOver", agent.ApprovalAnswered{Decision: agent.Deny, UserID: 7, Message: "later"}, "The user does not answer, and says: later"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, false)
			r.model.steps = []step{use(which), say("done")}
			ended := make(chan error, 1)
			go func() { ended <- loop.Run(t.Context(), r.id, r.config()) }()
			said := c.said
			said.ApprovalID = r.asked().ID
			if len(r.model.requests) != 1 {
				t.Errorf("%d requests while it waits", len(r.model.requests))
			}
			r.record(&said)
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{c.want}, results(r)); diff != "" {
				t.Error(diff)
			}
			if len(r.machine.asked) > 0 || len(bodies[*agent.CallJudged](r)) > 0 {
				t.Errorf("the machine was asked %q", r.machine.asked)
			}
		})
	}
}

// A question is asked once, however often the server restarts, and is closed
// when its run ends.
func TestQuestionsOverRestartsAndCancels(t *testing.T) {
	r := newRig(t, false)
	r.model.steps = []step{use(which), say("done")}
	for range 2 {
		r.restart(func() { r.asked() })
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx, r.id, r.config()) }()
	r.asked()
	r.record(&agent.CancelAsked{Reason: "not needed"})
	cancel(loop.ErrCancel)
	if err := <-ended; err != nil { // the context ended before the loop read the journal; the next loop ends the run
		if err := loop.Run(t.Context(), r.id, r.config()); err != nil {
			t.Fatal(err)
		}
	}
	a, err := r.store.Agent(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(bodies[*agent.ApprovalAsked](r)); n != 1 || len(r.model.requests) != 1 || len(a.Approvals) != 0 {
		t.Errorf("asked %d times, %d requests, %d wait", n, len(r.model.requests), len(a.Approvals))
	}
}

// If nobody answers in time, the agent decides questions itself, but plans
// remain unapproved.
func TestNobodyAnswersAQuestion(t *testing.T) {
	r := newRig(t, false)
	r.review = review.New(review.Config{Rules: r.store, DenyAfter: time.Millisecond})
	r.model.steps = []step{use(which), use(`CreatePlan {"name":"x","plan":"y"}`), say("done")}
	r.work(t.Context())
	if got := results(r); len(got) != 2 || !strings.HasPrefix(got[0], "Nobody answered in time: decide yourself") || !strings.HasPrefix(got[1], "Nobody answered in time about the plan") {
		t.Errorf("got %q", got)
	}
}

func TestWrongQuestions(t *testing.T) {
	r := newRig(t, false)
	wrong := map[string]string{
		`AskQuestion {"questions":[]}`: "has 0 entries",
		`AskQuestion {"questions":[{"id":"a","prompt":"b"},{"id":"a","prompt":"b"}]}`:                                   "duplicate ",
		`AskQuestion {"title":"` + strings.Repeat("x", 501) + `","questions":[{"id":"a","prompt":"b"}]}`:                "title is longer",
		`CreatePlan {"name":"` + strings.Repeat("x", 501) + `","plan":"y"}`:                                             "name must have at most 500",
		`AskQuestion {"questions":[{"id":"a"}]}`:                                                                        "missing",
		`AskQuestion {"questions":[{"id":"a","prompt":"b","options":[{"id":"x"}]}]}`:                                    "label",
		`AskQuestion {"questions":[{"id":"a","prompt":"b","options":[{"id":"x","label":"y"},{"id":"x","label":"z"}]}]}`: "duplicate ",
		`AskQuestion {"questions":5}`:                                         "schema",
		`CreatePlan {"name":"a"}`:                                             "missing",
		`CreatePlan {"name":"a","x":1}`:                                       "schema",
		`CreatePlan {"name":"a","plan":"` + strings.Repeat("x", 32001) + `"}`: "32001 bytes",
	}
	var wants []string
	for call, want := range wrong {
		r.model.steps = append(r.model.steps, use(call))
		wants = append(wants, want)
	}
	r.model.steps = append(r.model.steps, say("done"))
	r.work(t.Context())
	for i, got := range results(r) {
		if !strings.Contains(got, wants[i]) {
			t.Errorf("got %q, want %q", got, wants[i])
		}
	}
	if n := len(bodies[*agent.ApprovalAsked](r)); n != 0 {
		t.Errorf("%d were put to a person", n)
	}
}

// In plan mode nothing changes until a person approves the plan. Afterwards the
// usual rules apply. Feedback leads to a new plan.
func TestPlanMode(t *testing.T) {
	r := newRig(t, false)
	r.machine.enforced = true
	r.reviewed(permit.RunEverything, "")
	r.record(&agent.RunEnded{Status: agent.Finished})
	r.run = agent.NewRunID()
	r.record(&agent.RunCreated{Prompt: conversation.Text(conversation.User, "plan it"), Mode: agent.ModePlan})
	const plan = `CreatePlan {"name":"Mend","overview":"all of it","plan":"# First","todos":[{"id":"1","content":"read","status":"pending"}]}`
	r.model.steps = []step{
		use(`Read {"path":"a"}`, `Shell {"command":"ls"}`, `Write {"path":"a","contents":"b"}`, `WriteShellStdin {"pid":1,"input":"x"}`),
		use(plan), use(plan), use(`Write {"path":"a","contents":"b"}`), say("done"),
	}
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(t.Context(), r.id, r.config()) }()
	first := r.asked()
	if first.Subject != "Mend" || first.Reason != "all of it" || first.Change != "# First\n\n- [ ] read" {
		t.Errorf("the plan is %+v", first)
	}
	r.record(&agent.ApprovalAnswered{ApprovalID: first.ID, Decision: agent.Deny, Message: "shorter", UserID: 7})
	r.record(&agent.ApprovalAnswered{ApprovalID: r.asked().ID, Decision: agent.AllowOnce, UserID: 7})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"run by policy", "sandboxed by policy", "refused by policy", "refused by policy", "run by policy"}, treatments(r)); diff != "" {
		t.Error(diff)
	}
	if got := r.machine.policies; len(got) != 1 || !cmp.Equal(got[0], sandbox.Strictest()) {
		t.Errorf("the sandbox was under %+v", got)
	}
	said := results(r)
	if diff := cmp.Diff([]string{"The user did not approve the plan, and says: shorter", "The user approved the plan: carry it out now.", "ok"}, said[4:]); diff != "" {
		t.Error(diff)
	}
	if words := r.model.requests[0].Messages; !strings.Contains(words[len(words)-1].PlainText(), "plan mode") {
		t.Errorf("the model was told %+v", words)
	}
}
