package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"aloft/internal/memory"
)

// remember stores a memory; with a text it is approved.
func (h *house) remember(repo, title, text string, p *memory.Proposal) string {
	h.t.Helper()
	h.remembered++
	now := time.Now().UTC()
	m := memory.Memory{ID: memory.ID("bc-1", fmt.Sprint(h.remembered)), Repo: repo, Title: title, Text: text, Proposal: p, Author: memory.Author{AgentID: "bc-1", RunID: "run-1"}, CreatedAt: now, UpdatedAt: now}
	if err := h.store.AddMemory(h.t.Context(), m); err != nil {
		h.t.Fatal(err)
	}
	return m.ID
}

// memoryOf returns the id of a new memory for a route about one.
func (h *house) memoryOf(path string) string {
	if !strings.Contains(path, "{memoryId}") {
		return ""
	}
	return h.remember("git.example.com/open/r", "Build", "make", nil)
}

func proposed(title, text string) *memory.Proposal {
	return &memory.Proposal{Title: title, Text: text, By: memory.Author{AgentID: "bc-2", RunID: "run-2"}, At: time.Now().UTC()}
}

// TestMemories has people review memories: each decision is about the revision that the
// person has read.
func TestMemories(t *testing.T) {
	h := newHouse(t)
	const repo = "git.example.com/open/r"
	old := h.remember(repo, "Build", "make", nil)
	fresh := h.remember(repo, "", "", proposed("Tests", "make test"))
	gone := h.remember(repo, "Old", "cvs", &memory.Proposal{Delete: true})
	changed := h.remember(repo, "Deploy", "ssh", proposed("Deploy", "kubectl"))
	at := func(id string) string { return "/v1/memories/" + id }

	list := h.want(h.callAs(bensKey, "GET", "/v1/memories?repository=https://git.example.com/open/r.git", ""), 200)
	var ids []string
	for _, item := range list.get(t, "items").([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	if len(ids) != 4 || ids[3] != old || list.get(t, "truncated") != false || fmt.Sprint(list.get(t, "repositories")) != "["+repo+"]" {
		t.Errorf("listed %s", list.body)
	}
	for id, want := range map[string]string{old: "", fresh: "create", gone: "delete", changed: "update"} {
		m := h.want(h.callAs(viewersKey, "GET", at(id), ""), 200)
		if want != "" && m.text(t, "proposal.action") != want || m.get(t, "revision") != 1.0 || (m.text(t, "status") == "proposed") != (id == fresh) {
			t.Errorf("%s: %s", want, m.body)
		}
	}
	if items := h.want(h.call("GET", "/v1/memories?repository=git.example.com/other/r", ""), 200).get(t, "items").([]any); len(items) > 0 {
		t.Errorf("of another repository: %v", items)
	}

	h.want(h.callAs(bensKey, "POST", at(fresh)+"/approve", `{"revision":1}`), 200)
	if m := h.want(h.call("GET", at(fresh), ""), 200); m.text(t, "text") != "make test" || m.get(t, "author.userId") != 2.0 || m.text(t, "author.agentId") != "bc-2" || strings.Contains(string(m.body), "proposal") {
		t.Errorf("approved: %s", m.body)
	}
	h.want(h.call("POST", at(gone)+"/approve", `{"revision":1}`), 200)
	h.want(h.call("GET", at(gone), ""), 404)
	h.want(h.call("POST", at(changed)+"/reject", `{"revision":1}`), 200)
	if m := h.want(h.call("GET", at(changed), ""), 200); m.text(t, "text") != "ssh" || m.get(t, "revision") != 2.0 {
		t.Errorf("rejected: %s", m.body)
	}
	if a := h.want(h.call("POST", at(changed)+"/approve", `{"revision":1}`), 409); a.text(t, "error.code") != "memory_changed" {
		t.Errorf("an approval of an old revision: %s", a.body)
	}
	h.want(h.call("POST", at(changed)+"/approve", `{"revision":2}`), 409) // nothing is proposed
	h.want(h.call("PATCH", at(old), `{"revision":2,"title":"a","text":"b"}`), 409)
	if m := h.want(h.call("PATCH", at(old), `{"revision":1,"title":"Building","text":"run\u202e make all"}`), 200); m.text(t, "text") != "run make all" || m.get(t, "revision") != 2.0 {
		t.Errorf("edited: %s", m.body)
	}
	h.want(h.call("PATCH", at(old), `{"revision":2,"title":"x","text":"`+strings.Repeat("x", memory.MaxText+1)+`"}`), 400)
	h.want(h.call("DELETE", at(old), ""), 400)
	h.want(h.call("DELETE", at(old)+"?revision=1", ""), 409)
	h.want(h.call("DELETE", at(old)+"?revision=2", ""), 200)
	never := h.remember(repo, "", "", proposed("Never", "x"))
	h.want(h.call("POST", at(never)+"/reject", `{"revision":1}`), 200)
	h.want(h.call("GET", at(never), ""), 404)
	h.want(h.callAs(viewersKey, "POST", at(fresh)+"/approve", `{"revision":2}`), 403)

	many := strings.Repeat("x", memory.MaxText)
	for i := range memory.MaxTotal / memory.MaxText {
		h.remember("git.example.com/full/r", fmt.Sprint(i), many[:memory.MaxText-10], nil)
	}
	last := h.remember("git.example.com/full/r", "last", "x", nil)
	h.want(h.call("PATCH", at(last), `{"revision":1,"title":"last","text":"`+many+`"}`), 400)
}

// TestMemoriesOfARepository checks that members see only the memories of repositories on
// which they may run agents.
func TestMemoriesOfARepository(t *testing.T) {
	h := newHouse(t)
	open, shut := h.remember("git.example.com/open/r", "a", "b", nil), h.remember("git.example.com/shut/r", "", "", proposed("c", "d"))
	h.want(h.call("PATCH", "/v1/repository-access", `{"mode":"allow-list","everyone":["git.example.com/open/*"]}`), 200)
	list := h.want(h.callAs(bensKey, "GET", "/v1/memories", ""), 200)
	if !strings.Contains(string(list.body), open) || strings.Contains(string(list.body), "shut") {
		t.Errorf("ben sees %s", list.body)
	}
	for _, r := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"PATCH", "", `{"revision":1,"title":"a","text":"b"}`}, {"DELETE", "?revision=1", ""},
		{"POST", "/approve", `{"revision":1}`}, {"POST", "/reject", `{"revision":1}`},
	} {
		h.want(h.callAs(bensKey, r.method, "/v1/memories/"+shut+r.path, r.body), 404)
	}
	h.want(h.callAs(adminsKey, "POST", "/v1/memories/"+shut+"/approve", `{"revision":1}`), 200)
}

// TestMemorySettings checks which settings of memories are accepted.
func TestMemorySettings(t *testing.T) {
	h := newHouse(t)
	if now := h.want(h.call("GET", "/v1/settings", ""), 200); now.text(t, "memory") != "off" {
		t.Errorf("at first: %s", now.body)
	}
	for body, field := range map[string]string{`{"memory":"yes"}`: "memory", `{"memoryRepositories":["x"]}`: "memoryRepositories[0]"} {
		if a := h.want(h.call("PATCH", "/v1/settings", body), 400); !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	now := h.want(h.call("PATCH", "/v1/settings", `{"memory":"review","memoryRepositories":["https://git.example.com/o/r.git","github.com/acme/*"]}`), 200)
	if now.text(t, "memory") != "review" || fmt.Sprint(now.get(t, "memoryRepositories")) != "[git.example.com/o/r github.com/acme/*]" {
		t.Errorf("set: %s", now.body)
	}
	h.want(h.callAs(bensKey, "PATCH", "/v1/settings", `{"memory":"on"}`), 403)
	if now = h.want(h.call("PATCH", "/v1/settings", `{"memory":"off","memoryRepositories":[]}`), 200); now.text(t, "memory") != "off" || len(now.get(t, "memoryRepositories").([]any)) > 0 {
		t.Errorf("off: %s", now.body)
	}
}
