package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

func TestAgentLifecycle(t *testing.T) {
	h := newHouse(t)
	h.want(h.call("POST", "/v1/environments", `{"owner":"personal","name":"e","environmentJson":"{}"}`), 201)
	a := h.want(h.call("POST", "/v1/agents", `{
		"prompt":{"text":"Mend the failing test, please, and then push","images":[{"data":"iVBORw0KGgo=","mimeType":"image/png","dimension":{"width":1,"height":1}}]},
		"agentId":"bc-00000000-0000-4000-8000-00000000000A","name":"Mender","model":{"id":"other"},"env":{"type":"cloud","name":"e"},
		"repos":[{"url":"github.com/o/r"}],"mcpServers":[],"envVars":{},"customSubagents":[],"mode":"agent","skipReviewerRequest":true,"newer":{"x":1}}`), 201)
	id, runID := a.text(t, "agent.id"), a.text(t, "run.id")
	if id != "bc-00000000-0000-4000-8000-00000000000A" || a.text(t, "agent.name") != "Mender" || a.text(t, "agent.status") != "ACTIVE" ||
		a.text(t, "agent.url") != "http://aloft.test/agents/"+id || a.text(t, "agent.latestRunId") != runID || a.text(t, "run.status") != "CREATING" {
		t.Errorf("created: %s", a.body)
	}
	events, err := h.store.Read(t.Context(), id, 0, 9)
	if err != nil || len(events) != 2 {
		t.Fatalf("journal: %v, %v", events, err)
	}
	c := events[0].Body.(*agent.Created)
	if c.Model != "other" || c.Repos[0].URL != "https://github.com/o/r" || !strings.HasPrefix(c.Branch, "aloft/mend-the-failing-test") {
		t.Errorf("journaled %+v", c)
	}
	prompt := events[1].Body.(*agent.RunCreated).Prompt
	if len(prompt.Blocks) != 2 || string(prompt.Blocks[1].Image.Data) != "\x89PNG\r\n\x1a\n" {
		t.Errorf("prompt %+v", prompt)
	}
	if !slices.Contains(h.work.woken, id) {
		t.Error("the scheduler was not woken")
	}

	path := "/v1/agents/" + id
	h.want(h.call("GET", path, ""), 200)
	h.want(h.call("GET", "/v1/agents?limit=1", ""), 200)
	busy := h.want(h.call("POST", path+"/runs", `{"prompt":{"text":"more"}}`), 409)
	if busy.text(t, "error.code") != "agent_busy" {
		t.Errorf("busy: %s", busy.body)
	}
	h.want(h.call("GET", path+"/runs/"+runID, ""), 200)
	h.append(id, runID, append(someWork(), finish())...)
	done := h.want(h.call("GET", path+"/runs/"+runID, ""), 200)
	if done.text(t, "status") != "FINISHED" || done.text(t, "result") != "Done." || !strings.Contains(string(done.body), `"repoUrl":"git.example.com/o/r.git","branch":"aloft/x"`) {
		t.Errorf("finished: %s", done.body)
	}
	second := h.want(h.call("POST", path+"/runs", `{"prompt":{"text":"more"},"mode":"agent","mcpServers":[]}`), 201)
	runs := h.want(h.call("GET", path+"/runs", ""), 200)
	if items := runs.get(t, "items").([]any); len(items) != 2 || items[0].(map[string]any)["id"] != second.text(t, "run.id") {
		t.Errorf("runs: %s", runs.body)
	}
	use := h.want(h.call("GET", path+"/usage", ""), 200)
	if use.get(t, "totalUsage.totalTokens") != 46. || use.get(t, "totalUsage.inputTokens") != 33. {
		t.Errorf("usage: %s", use.body)
	}
	h.want(h.call("GET", path+"/usage?runId="+runID, ""), 200)
	h.want(h.call("GET", path+"/usage?runId=run-x", ""), 404)

	if got := h.want(h.call("POST", path+"/archive", ""), 200).text(t, "id"); got != id {
		t.Errorf("archive: id %q", got)
	}
	if !slices.Contains(h.work.removed, id) {
		t.Error("its machine was not removed")
	}
	h.work.removed = nil
	h.want(h.call("POST", path+"/archive", `{}`), 200) // archiving is idempotent
	if got := h.call("GET", path, "").text(t, "status"); got != "ARCHIVED" {
		t.Errorf("status %q", got)
	}
	if !h.journalHas(id, func(b agent.Body) bool { _, ok := b.(*agent.CancelAsked); return ok }) {
		t.Error("archiving did not ask the open run to stop")
	}
	h.append(id, second.text(t, "run.id"), &agent.RunEnded{Status: agent.Cancelled})
	filed := h.want(h.call("POST", path+"/runs", `{"prompt":{"text":"more"}}`), 409)
	if filed.text(t, "error.code") != "agent_archived" {
		t.Errorf("archived: %s", filed.body)
	}
	if n := len(h.call("GET", "/v1/agents?includeArchived=false", "").get(t, "items").([]any)); n != 0 {
		t.Errorf("%d agents that are not archived", n)
	}
	if n := len(h.call("GET", "/v1/agents", "").get(t, "items").([]any)); n != 1 {
		t.Errorf("%d agents", n)
	}
	h.want(h.call("POST", path+"/unarchive", ""), 200)
	h.want(h.call("POST", path+"/runs", `{"prompt":{"text":"more"}}`), 201)

	h.want(h.call("DELETE", path, ""), 200)
	if !slices.Contains(h.work.removed, id) {
		t.Error("its machine was not removed")
	}
	h.want(h.call("GET", path, ""), 404)
	h.want(h.call("DELETE", path, ""), 404)
}

func (h *house) journalHas(id string, is func(agent.Body) bool) bool {
	h.t.Helper()
	events, err := h.store.Read(h.t.Context(), id, 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e agent.Event) bool { return is(e.Body) })
}

func TestSameAgentIDConflicts(t *testing.T) {
	h := newHouse(t)
	body := `{"prompt":{"text":"x"},"agentId":"bc-00000000-0000-4000-8000-000000000001"}`
	h.want(h.call("POST", "/v1/agents", body), 201)
	for _, key := range []string{annsKey, bensKey} {
		if a := h.want(h.callAs(key, "POST", "/v1/agents", body), 409); a.text(t, "error.code") != "agent_id_conflict" {
			t.Errorf("%s", a.body)
		}
	}
}

func TestIdempotencyKeyGivesTheFirstReplyAgain(t *testing.T) {
	h := newHouse(t)
	for name, body := range map[string]string{
		"WithoutAgentID": `{"prompt":{"text":"x"}}`,
		"WithAgentID":    `{"prompt":{"text":"x"},"agentId":"bc-00000000-0000-4000-8000-000000000002"}`,
	} {
		t.Run(name, func(t *testing.T) {
			first := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "k"+name), 201)
			id, runID := first.text(t, "agent.id"), first.text(t, "run.id")
			h.append(id, runID, &agent.RunStarted{}, finish())
			again := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "k"+name), 201)
			if string(first.body) != string(again.body) {
				t.Errorf("first %s\nagain %s", first.body, again.body)
			}
			other := h.want(h.call("POST", "/v1/agents", strings.Replace(body, `"x"`, `"y"`, 1), "Idempotency-Key", "k"+name), 409)
			if other.text(t, "error.code") != "idempotency_key_reused" {
				t.Errorf("another prompt: %s", other.body)
			}
			runs := "/v1/agents/" + id + "/runs"
			run := h.want(h.call("POST", runs, `{"prompt":{"text":"more"}}`, "Idempotency-Key", "r"), 201)
			repeat := h.want(h.call("POST", runs, `{"prompt":{"text":"more"}}`, "Idempotency-Key", "r"), 201)
			if string(run.body) != string(repeat.body) {
				t.Errorf("run %s\nagain %s", run.body, repeat.body)
			}
			h.want(h.call("POST", runs, `{"prompt":{"text":"less"}}`, "Idempotency-Key", "r"), 409)
		})
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"x"}}`, "Idempotency-Key", "kWithoutAgentID"), 201)
}

// An Idempotency-Key determines the id of its user's agent. Nobody else can
// take that id, even if they know the key.
func TestIdempotencyKeysOfOthersAreNotTaken(t *testing.T) {
	h := newHouse(t)
	const body = `{"prompt":{"text":"x"}}`
	ann, err := rest.KeyOf(t.Context(), h.store, account.HashKey(annsKey))
	if err != nil {
		t.Fatal(err)
	}
	old := "bc-" + rest.Named(ann, "agent", "deploy-1") // as earlier versions generated it
	id := rest.NamedAgent(ann, "agent", "deploy-1")
	if !agent.ValidID(id) {
		t.Fatalf("%s is no id", id)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"mine"},"agentId":"`+old+`"}`), 201)
	if a := h.want(h.callAs(bensKey, "POST", "/v1/agents", `{"prompt":{"text":"mine"},"agentId":"`+id+`"}`), 400); a.text(t, "error.code") != "validation_error" {
		t.Errorf("%s", a.body)
	}
	first := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "deploy-1"), 201)
	if got := first.text(t, "agent.id"); got != id {
		t.Errorf("the agent is %s, want %s", got, id)
	}
	again := h.want(h.call("POST", "/v1/agents", body, "Idempotency-Key", "deploy-1"), 201)
	if string(first.body) != string(again.body) {
		t.Errorf("first %s\nagain %s", first.body, again.body)
	}
}

// TestIdempotencyKeysOfOldAgents checks that a request with an Idempotency-Key
// that an older server has stored returns the first reply.
func TestIdempotencyKeysOfOldAgents(t *testing.T) {
	h := newHouse(t)
	ann, err := rest.KeyOf(t.Context(), h.store, account.HashKey(annsKey))
	if err != nil {
		t.Fatal(err)
	}
	old := "bc-" + rest.Named(ann, "agent", "k")
	runID := "run-" + rest.Named(ann, old, "k")
	var head int64
	prompt := conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Text: "x"}}}
	if _, err := h.store.Append(t.Context(), store.Append{AgentID: old, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "x", UserID: ann.UserID, Model: "scripted", Env: agent.Env{Type: "cloud"}}}, {RunID: runID, Body: &agent.RunCreated{Prompt: prompt}},
	}}); err != nil {
		t.Fatal(err)
	}
	again := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"}}`, "Idempotency-Key", "k"), 201)
	if again.text(t, "agent.id") != old || again.text(t, "run.id") != runID {
		t.Errorf("%s", again.body)
	}
}

func TestTwoPromptsAtOnce(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{}, finish())
	statuses := make([]int, 16)
	var wg sync.WaitGroup
	for i := range statuses {
		wg.Go(func() { statuses[i] = h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"more"}}`).status })
	}
	wg.Wait()
	slices.Sort(statuses)
	if statuses[0] != 201 || statuses[1] != 409 || statuses[15] != 409 {
		t.Errorf("statuses %v; one 201 and nothing but 409 is wanted", statuses)
	}
}

func TestCancel(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := "/v1/agents/" + id + "/runs/" + runID + "/cancel"
	if got := h.want(h.call("POST", path, ""), 200).text(t, "id"); got != runID {
		t.Errorf("id %q", got)
	}
	if !h.journalHas(id, func(b agent.Body) bool { _, ok := b.(*agent.CancelAsked); return ok }) {
		t.Error("nothing was journaled")
	}
	h.append(id, runID, &agent.RunEnded{Status: agent.Cancelled})
	head := h.head(id)
	if a := h.want(h.call("POST", path, ""), 409); a.text(t, "error.code") != "run_not_cancellable" {
		t.Errorf("%s", a.body)
	}
	if h.head(id) != head {
		t.Error("an event came after the run's end")
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/runs/run-nope/cancel", ""), 404)
}

func (h *house) head(id string) int64 {
	h.t.Helper()
	a, err := h.store.Agent(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return a.Head
}

// A cancel request races with the run's own events. It is appended between
// them.
func TestCancelWhileTheRunWrites(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = h.store.Append(t.Context(), store.Append{AgentID: id, Events: []agent.Event{{RunID: runID, Body: &agent.TextDelta{Text: "x"}}}})
			}
		}
	}()
	h.want(h.call("POST", "/v1/agents/"+id+"/runs/"+runID+"/cancel", ""), 200)
	close(stop)
	<-stopped
}

func TestPages(t *testing.T) {
	h := newHouse(t)
	const n = 7
	var ids []string
	for range n {
		id, _ := h.begin()
		ids = append(ids, id)
	}
	slices.Reverse(ids)
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	for _, limit := range []int{1, 3, 7, 100} {
		var got []string
		for path := fmt.Sprintf("/v1/agents?limit=%d", limit); ; {
			a := h.want(h.call("GET", path, ""), 200)
			for _, item := range a.get(t, "items").([]any) {
				got = append(got, item.(map[string]any)["id"].(string))
			}
			next := a.text(t, "nextCursor")
			if next == "" {
				break
			}
			path = fmt.Sprintf("/v1/agents?limit=%d&cursor=%s", limit, next)
		}
		if !slices.Equal(got, ids) {
			t.Errorf("limit %d: %v, want %v", limit, got, ids)
		}
	}
	id, runID := h.begin()
	for range n - 1 {
		h.append(id, runID, &agent.RunStarted{}, finish())
		runID = h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"}}`), 201).text(t, "run.id")
	}
	first := h.call("GET", "/v1/agents/"+id+"/runs?limit=4", "")
	rest := h.call("GET", "/v1/agents/"+id+"/runs?limit=4&cursor="+first.text(t, "nextCursor"), "")
	if a, b := len(first.get(t, "items").([]any)), len(rest.get(t, "items").([]any)); a != 4 || b != 3 || rest.text(t, "nextCursor") != "" {
		t.Errorf("pages of %d and %d runs, then %q", a, b, rest.text(t, "nextCursor"))
	}
	for _, bad := range []string{"limit=0", "limit=101", "limit=x", "cursor=", "cursor=%21", "cursor=" + first.text(t, "nextCursor"), "includeArchived=maybe", "prUrl=https://x/1"} {
		name, _, _ := strings.Cut(bad, "=")
		a := h.want(h.call("GET", "/v1/agents?"+bad, ""), 400)
		if !strings.Contains(a.text(t, "error.message"), name) {
			t.Errorf("%s: %s", bad, a.body)
		}
	}
}

func TestMeModelsDiff(t *testing.T) {
	h := newHouse(t)
	me := h.want(h.call("GET", "/v1/me", ""), 200)
	if me.text(t, "userEmail") != "anns@example.com" || me.text(t, "apiKeyName") != "test" {
		t.Errorf("me: %s", me.body)
	}
	models := h.want(h.call("GET", "/v1/models", ""), 200)
	if want := `{"items":[{"id":"house","displayName":"house","aliases":["default"]},{"id":"other","displayName":"Other"}]}` + "\n"; string(models.body) != want {
		t.Errorf("models: %s", models.body)
	}
	id, _ := h.begin()
	h.work.diff = func(string) (string, bool, error) { return "+a <b>\n", true, nil }
	if d := h.want(h.call("GET", "/v1/agents/"+id+"/diff", ""), 200); d.text(t, "diff") != "+a <b>\n" || d.get(t, "truncated") != true {
		t.Errorf("diff: %s", d.body)
	}
	h.work.diff = nil
	if d := h.want(h.call("GET", "/v1/agents/"+id+"/diff", ""), 500); strings.Contains(string(d.body), "machine") {
		t.Errorf("an internal error's text got out: %s", d.body)
	}
}

func TestEvents(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{}, &agent.CallDone{CallID: "c", Images: []conversation.Image{{MediaType: "image/png", Data: []byte("secret")}}})
	lines := func(query string) []string {
		a := h.want(h.call("GET", "/v1/agents/"+id+"/events"+query, ""), 200)
		return strings.Split(strings.TrimSuffix(string(a.body), "\n"), "\n")
	}
	all := lines("")
	if len(all) != 4 || !strings.Contains(all[0], `"kind":"agent.created"`) || strings.Contains(all[3], "c2VjcmV0") {
		t.Errorf("events: %q", all)
	}
	if got := lines("?after=1&limit=2"); !slices.Equal(got, all[1:3]) {
		t.Errorf("a part: %q", got)
	}
	h.want(h.call("GET", "/v1/agents/"+id+"/events?after=-1", ""), 400)
	h.want(h.call("GET", "/v1/agents/"+id+"/events?limit=0", ""), 400)
	for query, part := range map[string][]string{
		"?last=2": all[2:], "?last=2&before=4": all[1:3], "?last=9&after=2&before=4": all[2:3], "?before=3": all[:2], "?before=3&limit=1": all[:1], "?last=1000&before=99": all,
	} {
		if got := lines(query); !slices.Equal(got, part) {
			t.Errorf("%s: %q", query, got)
		}
	}
	for _, bad := range []string{"?last=0", "?last=1001", "?before=0", "?last=3&limit=3", "?before=3&follow=true", "?pieces=false", "?pieces=no&last=1"} {
		h.want(h.call("GET", "/v1/agents/"+id+"/events"+bad, ""), 400)
	}

	h.api.stream.Heartbeat = 1e7
	resp := h.open("/v1/agents/"+id+"/events?follow=true&after=4", "")
	dec := json.NewDecoder(resp.Body)
	h.append(id, runID, finish())
	var line struct{ Kind string }
	if err := dec.Decode(&line); err != nil || line.Kind != "run.ended" {
		t.Errorf("followed: %+v, %v", line, err)
	}
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	if dec.More() {
		t.Error("it goes on after the agent")
	}
}

func TestHealth(t *testing.T) {
	h := newHouse(t)
	if a := h.want(h.callAs("", "GET", "/healthz", ""), 200); a.text(t, "status") != "ok" {
		t.Errorf("%s", a.body)
	}
	h.api.config.Ready = func() error { return http.ErrServerClosed }
	h.want(h.callAs("", "GET", "/healthz", ""), 503)
}

// Lists show the status and current activity of each agent's run.
func TestListSaysWhatAgentsDo(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	one := func() map[string]any {
		t.Helper()
		m, _ := h.call("GET", "/v1/agents", "").get(t, "items").([]any)[0].(map[string]any)
		return m
	}
	call := conversation.Block{Call: &conversation.ToolCall{ID: "c", Name: "Shell", Args: []byte(`{"command":"make\ntest"}`)}}
	for _, step := range []struct {
		event        agent.Body
		status, does string
	}{
		{nil, "CREATING", ""},
		{&agent.RunStarted{}, "RUNNING", ""},
		{&agent.BootStep{Name: "checkout", State: "running"}, "RUNNING", "starting the machine: checkout"},
		{&agent.MachineReady{MachineID: "m", BootID: "b"}, "RUNNING", "starting the machine: checkout"},
		{&agent.ThinkingDelta{Text: "hm"}, "RUNNING", "thinking"},
		{&agent.TextDelta{Text: "I"}, "RUNNING", "writing"},
		{&agent.TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{call}}}, "RUNNING", "Shell make test"},
		{&agent.CallDone{CallID: "c", Text: strings.Repeat("x", 500)}, "RUNNING", "Shell make test"},
		{&agent.RunEnded{Status: agent.Failed, Failure: &agent.Failure{Code: "internal", Message: strings.Repeat("é ", 100)}}, "ERROR", strings.Repeat("é ", 59) + "é…"},
	} {
		if step.event != nil {
			h.append(id, runID, step.event)
		}
		got := one()
		does, _ := got["doing"].(string)
		if got["runStatus"] != step.status || does != step.does {
			t.Errorf("after %T: %v, %q; want %s, %q", step.event, got["runStatus"], does, step.status, step.does)
		}
	}
}
