package api

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
)

// wonders makes the agent ask two questions, and returns the path for the
// answer.
func (h *house) wonders(id, runID string) string {
	h.t.Helper()
	q := agent.Approval{
		ID: agent.NewApprovalID(), RunID: runID, CallID: "c1", Tool: agent.QuestionTool, Subject: "The store", Why: "it waits for your answer", AskedAt: time.Now(),
		Questions: []agent.Question{
			{ID: "db", Prompt: "Which?", Options: []agent.Option{{ID: "pg", Label: "PostgreSQL"}, {ID: "lite", Label: "SQLite"}}},
			{ID: "os", Prompt: "Where?", AllowMultiple: true, Options: []agent.Option{{ID: "l", Label: "Linux"}, {ID: "m", Label: "macOS"}}},
			{ID: "name", Prompt: "Its name?"},
		},
	}
	h.append(id, runID, &agent.ApprovalAsked{Approval: q})
	return "/v1/agents/" + id + "/approvals/" + q.ID
}

func TestAnswersHaveToFit(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := h.wonders(id, runID)
	listed := h.want(h.call("GET", "/v1/approvals", ""), 200)
	if !strings.Contains(string(listed.body), `"options":[{"id":"pg","label":"PostgreSQL"}`) {
		t.Errorf("the list is %s", listed.body)
	}
	for body, at := range map[string]string{
		`{"decision":"allow_once"}`: "decision",
		`{"decision":"answer"}`:     "answers",
		`{"decision":"deny","answers":[{"questionId":"db","optionIds":["pg"]}]}`:                              "answers",
		`{"decision":"answer","answers":[{"questionId":"no","text":"x"}]}`:                                    "answers[0].questionId",
		`{"decision":"answer","answers":[{"questionId":"db"}]}`:                                               "answers[0].optionIds",
		`{"decision":"answer","answers":[{"questionId":"db","optionIds":["pg","lite"]}]}`:                     "answers[0].optionIds",
		`{"decision":"answer","answers":[{"questionId":"db","optionIds":["l"]}]}`:                             "answers[0].optionIds",
		`{"decision":"answer","answers":[{"questionId":"os","optionIds":["l","l"]}]}`:                         "answers[0].optionIds",
		`{"decision":"answer","answers":[{"questionId":"name","text":"a"},{"questionId":"name","text":"b"}]}`: "answers[1].questionId",
		`{"decision":"answer","answers":[{"questionId":"name","text":"` + strings.Repeat("x", 4001) + `"}]}`:  "answers[0].text",
	} {
		if a := h.want(h.call("POST", path, body), 400); !strings.Contains(a.text(t, "error.message"), at) {
			t.Errorf("%.80s: %s", body, a.body)
		}
	}
	const good = `{"decision":"answer","answers":[{"questionId":"db","optionIds":["lite"]},{"questionId":"os","optionIds":["l","m"],"text":"and BSD"}],"message":"soon"}`
	h.want(h.call("POST", path, good), 200)
	h.want(h.call("POST", path, good), 200) // the repeat of a client that missed the first reply
	if a := h.want(h.call("POST", path, `{"decision":"deny"}`), 409); a.text(t, "error.code") != "approval_answered" {
		t.Errorf("another answer: %s", a.body)
	}
	if n := strings.Count(string(h.call("GET", "/v1/agents/"+id+"/events", "").body), `"approval.answered"`); n != 1 {
		t.Errorf("%d answers are in the journal", n)
	}
	call := h.asks(id, runID, "Shell", "ls", "ls")
	h.want(h.call("POST", call, `{"decision":"answer","message":"yes"}`), 400)
	h.want(h.call("POST", call, `{"decision":"allow_once"}`), 200)
}

// If two people answer a question at once, the first answer counts and the
// second person is told.
func TestTwoAnswerAQuestionAtOnce(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := h.wonders(id, runID)
	var got [2]answer
	var both sync.WaitGroup
	for i, choice := range []string{"pg", "lite"} {
		both.Go(func() {
			got[i] = h.call("POST", path, `{"decision":"answer","answers":[{"questionId":"db","optionIds":["`+choice+`"]}]}`)
		})
	}
	both.Wait()
	if got[0].status == http.StatusConflict {
		got[0], got[1] = got[1], got[0]
	}
	if got[0].status != http.StatusOK || got[1].status != http.StatusConflict || !strings.Contains(got[1].text(t, "error.message"), "anns@example.com") {
		t.Errorf("got %d %s and %d %s", got[0].status, got[0].body, got[1].status, got[1].body)
	}
}

// If the user sends a message while a question waits, the server closes the
// question and keeps the message. A request for approval stays open.
func TestAMessageTakesAQuestionAway(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.wonders(id, runID)
	h.asks(id, runID, "Shell", "ls", "ls")
	for range 2 { // the repeat changes nothing
		queued := h.want(h.call("POST", "/v1/agents/"+id+"/queue", `{"prompt":{"text":"do another"},"mode":"plan","model":{"id":"other"}}`, "Idempotency-Key", "k"), 201)
		if queued.get(t, "started") != false {
			t.Errorf("got %s", queued.body)
		}
	}
	left := h.want(h.call("GET", "/v1/agents/"+id+"/approvals", ""), 200).get(t, "items").([]any)
	if len(left) != 1 || left[0].(map[string]any)["tool"] != "Shell" {
		t.Errorf("what waits is %v", left)
	}
	h.append(id, runID, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+id+"/queue", `{"prompt":{"text":"and this"}}`), 201) // starts all queued prompts
	a, err := h.store.Agent(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if a.Model != "other" {
		t.Errorf("the follow-up's model is %q", a.Model)
	}
}

func TestFollowUpsChangeTheModel(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	for _, c := range []struct{ body, want string }{
		{`{"prompt":{"text":"a"},"model":{"id":"other"}}`, "other"},
		{`{"prompt":{"text":"b"},"mode":"plan"}`, "other"},
		{`{"prompt":{"text":"c"},"model":{"id":"default"}}`, ""},
	} {
		h.append(id, runID, &agent.RunEnded{Status: agent.Finished})
		made := h.want(h.call("POST", "/v1/agents/"+id+"/runs", c.body), 201)
		runID = made.text(t, "run.id")
		if a, err := h.store.Agent(t.Context(), id); err != nil || a.Model != c.want {
			t.Errorf("%s: the model is %q (%v), want %q", c.body, a.Model, err, c.want)
		}
	}
	if s := h.folded(id); s.Mode != agent.ModePlan {
		t.Errorf("the mode is %q", s.Mode)
	}
}
