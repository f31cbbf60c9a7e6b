package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/agents"
	"aloft/internal/control/api/environments"
	"aloft/internal/control/ledger"
	"aloft/internal/environment"
)

// noSetUps refuses to save machines.
type noSetUps struct{ environments.SetUps }

func (noSetUps) Snapshot(context.Context, agent.Agent) (string, environment.Proposal, error) {
	panic("a machine was saved beyond the quota")
}

// TestQuotas fills each quota of a person. The server must refuse further
// requests with a typed error, return the first reply to repeated requests, and
// still serve other people.
func TestQuotas(t *testing.T) {
	h := newHouse(t)
	refused := func(a answer, what string) {
		t.Helper()
		h.want(a, 429)
		if a.text(t, "error.code") != "usage_limit_exceeded" || !strings.Contains(a.text(t, "error.message"), what) {
			t.Errorf("refused with %s", a.body)
		}
	}
	first := h.want(h.call("POST", "/v1/agents", task, "Idempotency-Key", "again"), 201)
	id, run := first.text(t, "agent.id"), first.text(t, "run.id")

	h.api.Quotas = agents.Quotas{Running: 1}
	refused(h.call("POST", "/v1/agents", task), "the quota of running agents per person is reached: 1 of 1")
	if a := h.want(h.call("POST", "/v0/agents", `{"prompt":{"text":"work"},"source":{"repository":"https://git.example.com/o/r"}}`), 429); a.text(t, "error") != "usage_limit_exceeded" {
		t.Errorf("v0 refused with %s", a.body)
	}
	if same := h.want(h.call("POST", "/v1/agents", task, "Idempotency-Key", "again"), 201); same.text(t, "agent.id") != id {
		t.Errorf("a repeated request started %s", same.body)
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	h.append(id, run, finish())
	other, otherRun := h.begin()
	for _, path := range []string{"/runs", "/queue", "/retry"} {
		body := `{"prompt":{"text":"go on"}}`
		if path == "/retry" {
			body = `{}`
		}
		refused(h.call("POST", "/v1/agents/"+id+path, body), "running agents")
	}
	h.append(other, otherRun, finish())
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"}}`), 201)

	h.api.Quotas = agents.Quotas{Agents: 3}
	refused(h.call("POST", "/v1/agents/"+other+"/fork", `{"prompt":{"text":"a"},"n":2}`), "the quota of agents per person is reached: 2 of 3")
	h.begin()
	refused(h.call("POST", "/v1/agents", task), "agents per person is reached: 3 of 3")
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	h.want(h.call("DELETE", "/v1/agents/"+other, ""), 200)
	h.begin()

	h.api.Quotas, h.api.environments.SetUps = agents.Quotas{Snapshots: 1}, noSetUps{}
	h.snapshotOfAnn()
	refused(h.call("POST", "/v1/agents/"+id+"/snapshots", ""), "snapshots per person is reached: 1 of 1")
}

// TestDiskQuota has a person's journal exceed the disk quota. The server must
// refuse new agents, forks and snapshots, but not follow-ups, because those may
// free space. After the agent is deleted, the server accepts new agents again.
func TestDiskQuota(t *testing.T) {
	h := newHouse(t)
	id, run := h.begin()
	h.append(id, run, &agent.TextDelta{Text: strings.Repeat("x", 1<<20)}, finish())
	quiet := slog.New(slog.DiscardHandler)
	h.api.Quotas = agents.Quotas{Disk: ledger.Quota{Ledger: ledger.New(quiet, ledger.Journals{Store: h.store}), Limit: ledger.Size{Bytes: 1 << 20}, Logger: quiet}}
	h.api.environments.SetUps = noSetUps{}
	for path, body := range map[string]string{
		"/v1/agents": task, "/v1/agents/" + id + "/fork": `{"prompt":{"text":"a"}}`, "/v1/agents/" + id + "/snapshots": "",
		"/v0/agents": `{"prompt":{"text":"work"},"source":{"repository":"https://git.example.com/o/r"}}`,
	} {
		if a := h.want(h.call("POST", path, body), 429); !strings.Contains(string(a.body), "usage_limit_exceeded") || !strings.Contains(string(a.body), "journal of agent "+id) {
			t.Errorf("%s is refused with %s", path, a.body)
		}
	}
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"remove what is not needed"}}`), 201)
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	h.want(h.call("POST", "/v1/agents", task), 201)
}

// TestHeld checks that streams that are open are shown with the agent and the person to
// whom they belong, and are gone once they end.
func TestHeld(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	tally := &h.api.accounts.Disk.(*ledger.Ledger).Tally
	h.api.config.Tally = tally
	held := func(key string) (all []string) {
		for _, v := range h.want(h.callAs(key, "GET", "/v1/usage/disk", ""), 200).get(t, "held").([]any) {
			m := v.(map[string]any)
			all = append(all, fmt.Sprintf("%v %v of %v for %v: %v", m["count"], m["kind"], m["agentId"], m["userId"], m["bytes"]))
		}
		return all
	}
	if got := held(annsKey); len(got) > 0 {
		t.Errorf("before: %v", got)
	}
	streams := []*http.Response{h.opened(annsKey, "/v1/agents/"+id+"/events?follow=true"), h.opened(annsKey, "/v1/agents/"+id+"/events?follow=true")}
	release := tally.Hold(ledger.Holding{Kind: ledger.Push, AgentID: id}, 1<<30)
	if _, err := h.api.accounts.Disk.Rows(t.Context(), 0); err != nil { // learns the owner of the push
		t.Fatal(err)
	}
	want := []string{"1 push of " + id + " for 1: 1.073741824e+09", "2 stream of " + id + " for 1: 0"}
	for _, key := range []string{annsKey, adminsKey} {
		if got := held(key); !slices.Equal(got, want) {
			t.Errorf("%v; want %v", got, want)
		}
	}
	if got := held(bensKey); len(got) > 0 {
		t.Errorf("another person sees %v", got)
	}
	release()
	for _, s := range streams {
		_ = s.Body.Close()
	}
	eventually(t, "the streams are gone", func() bool { return len(held(annsKey)) == 0 })
	feed, write := io.Pipe() // an event that is sent slowly, by somebody whom the server does not know yet
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.http.URL+"/hooks/github/acme", feed)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := h.http.Client().Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	eventually(t, "the event is shown", func() bool {
		return slices.Equal(held(adminsKey), []string{fmt.Sprintf("1 event of <nil> for 0: %v", float64(h.api.config.Hooks.Limit("github")))})
	})
	if got := held(bensKey); len(got) > 0 {
		t.Errorf("a member sees %v", got)
	}
	_ = write.Close()
	<-ended
	eventually(t, "the event is gone", func() bool { return len(held(adminsKey)) == 0 })
}

// TestDiskUsage checks the sums, and whose rows members and admins can see.
func TestDiskUsage(t *testing.T) {
	h := newHouse(t)
	id, run := h.begin()
	h.append(id, run, &agent.TextDelta{Text: strings.Repeat("x", 1<<20)})
	h.want(h.callAs(bensKey, "POST", "/v1/agents", task), 201)
	all := h.want(h.callAs(adminsKey, "GET", "/v1/usage/disk", ""), 200)
	people, items := all.get(t, "people").([]any), all.get(t, "items").([]any)
	if len(people) != 2 || len(items) != 2 || items[0].(map[string]any)["agentId"] != id || items[0].(map[string]any)["kind"] != "journal" ||
		items[0].(map[string]any)["bytes"].(float64) < 1<<20 || people[0].(map[string]any)["bytes"] != items[0].(map[string]any)["bytes"] {
		t.Errorf("an admin sees %s", all.body)
	}
	if a := h.want(h.callAs(bensKey, "GET", "/v1/usage/disk", ""), 200); strings.Contains(string(a.body), id) || len(a.get(t, "people").([]any)) != 1 || len(a.get(t, "items").([]any)) != 1 {
		t.Errorf("ben sees %s", a.body)
	}
}
