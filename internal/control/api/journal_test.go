package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// numbers returns the sequence numbers of the events on a page.
func (h *house) numbers(id, query string) (seqs []int64) {
	h.t.Helper()
	a := h.want(h.call("GET", "/v1/agents/"+id+"/events"+query, ""), 200)
	for line := range strings.Lines(string(a.body)) {
		var e struct{ Seq int64 }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			h.t.Fatalf("%s: %v in %q", query, err, line)
		}
		seqs = append(seqs, e.Seq)
	}
	return seqs
}

// turn returns the events of a turn: a reply that streams in pieces, and a call
// whose output also streams in pieces.
func turn(n, pieces int) (bodies []agent.Body) {
	call := fmt.Sprintf("c%d", n)
	for range pieces {
		bodies = append(bodies, &agent.TextDelta{Text: "x"})
	}
	bodies = append(bodies, &agent.TurnReplied{Usage: conversation.Usage{Input: 1, Output: 2}, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
		{Text: strings.Repeat("x", pieces)}, {Call: &conversation.ToolCall{ID: call, Name: "Shell", Args: json.RawMessage(`{}`)}},
	}}}, &agent.CallSent{CallID: call})
	for range pieces {
		bodies = append(bodies, &agent.CallDelta{CallID: call, Stdout: "y"})
	}
	return append(bodies, &agent.CallDone{CallID: call, Text: "y"})
}

func TestEventsWithoutPieces(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin() // events 1 and 2 create the agent and its run
	for n := range 40 {
		h.append(id, runID, turn(n, 10)...)
	}
	// The pages contain each event once, except redundant deltas, and begin at
	// a turn.
	var all []int64
	pages := 0
	for before := ""; ; pages++ {
		got := h.numbers(id, "?last=10&pieces=false"+before)
		all = slices.Concat(got, all)
		if got[0] == 1 {
			break
		}
		if (got[0]-2)%23 != 11 || len(got) != 12 {
			t.Fatalf("a page of %d that begins at %d", len(got), got[0])
		}
		before = fmt.Sprintf("&before=%d", got[0])
	}
	if len(all) != 2+40*3 || !slices.IsSorted(all) || pages != 10 {
		t.Errorf("%d events in %d pages: %v", len(all), pages+1, all)
	}
	// Deltas are kept if no later event repeats their text: those of an
	// unfinished reply, of a reply that the run's end cut off, and of a running
	// call.
	head := h.append(id, runID, &agent.TextDelta{Text: "so far"}, finish())[1].Seq
	if got := h.numbers(id, "?last=2&pieces=false"); !slices.Equal(got[len(got)-2:], []int64{head - 1, head}) {
		t.Errorf("a reply that was cut off: %v, with the end at %d", got, head)
	}
	if got := h.numbers(id, fmt.Sprintf("?last=3&pieces=false&before=%d", head-4)); got[len(got)-1] != head-5 {
		t.Errorf("a call that runs: %v, with the end at %d", got, head)
	}
	if got := h.numbers(id, "?last=1000&pieces=true"); int64(len(got)) != head {
		t.Errorf("%d of %d events", len(got), head)
	}
}

func TestJournal(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	list := func(call, status string) []agent.Body {
		out := fmt.Sprintf(`{"success":{"todos":[{"id":"1","content":"Look","status":%q}]}}`, status)
		return []agent.Body{
			&agent.TurnReplied{Usage: conversation.Usage{Input: 1, Output: 2}, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: call, Name: "TodoWrite", Args: json.RawMessage(`{}`)}}}}},
			&agent.CallDone{CallID: call, Output: json.RawMessage(out)},
		}
	}
	journal := func() answer { return h.want(h.call("GET", "/v1/agents/"+id+"/journal", ""), 200) }
	item := func(j answer, list, field string) any {
		items, _ := j.get(t, list).([]any)
		if len(items) != 1 {
			t.Fatalf("%d %s in %s", len(items), list, j.body)
		}
		return items[0].(map[string]any)[field]
	}
	if j := journal(); j.get(t, "turns") != 0. || len(j.get(t, "todos").([]any)) != 0 || j.text(t, "run.status") != "CREATING" {
		t.Errorf("at first: %s", j.body)
	}
	h.append(id, runID, append(list("a", "pending"), &agent.Pushed{Branch: "aloft/x", Commit: "1"})...)
	h.append(id, runID, list("b", "completed")...)
	h.append(id, "", &agent.Queued{RunID: "run-next", RunCreated: agent.RunCreated{Prompt: conversation.Text(conversation.User, "then")}})
	j := journal()
	if j.get(t, "turns") != 2. || j.get(t, "usage.outputTokens") != 4. || j.text(t, "branch") != "aloft/x" || item(j, "todos", "status") != "completed" ||
		item(j, "queue", "text") != "then" || item(j, "queue", "seq") != 8. || j.get(t, "head") != 8. || j.get(t, "counted") != 7. {
		t.Errorf("the journal: %s", j.body)
	}
	h.append(id, runID, finish())
	h.append(id, "", &agent.Rewound{To: 6, Turn: 2})
	if j = journal(); item(j, "todos", "status") != "pending" || j.get(t, "turns") != 2. || j.text(t, "run.status") != "FINISHED" || j.text(t, "run.endedAt") == "" {
		t.Errorf("after it was taken back: %s", j.body)
	}
}
