package api

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/patch"
)

// A request with a change creates a reviewer, and the API lists its findings.
func TestReview(t *testing.T) {
	h := newHouse(t)
	change := "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
	body := func(change, more string) string {
		text, err := json.Marshal(change)
		if err != nil {
			t.Fatal(err)
		}
		return `{"prompt":{"text":"Review the change."},"repos":[{"url":"https://git.example.com/r"}],"review":{"patch":` + string(text) + `}` + more + `}`
	}
	for name, bad := range map[string]string{
		"NoDiff":       body("hello", ""),
		"CutOff":       body(change[:len(change)-5], ""),
		"TooLarge":     body(change+strings.Repeat("\n", patch.Max), ""),
		"PullRequest":  body(change, `,"autoCreatePR":true`),
		"Branch":       body(change, `,"branchName":"x"`),
		"Plan":         body(change, `,"mode":"plan"`),
		"Checks":       body(change, `,"checks":["make"]`),
		"Preset":       body(change, `,"env":{"type":"cloud","preset":"setup"}`),
		"Repositories": strings.Replace(body(change, ""), `"repos":[`, `"repos":[{"url":"https://git.example.com/s"},`, 1),
		"NoForge":      `{"prompt":{"text":"x"},"review":{"pullRequest":"https://git.example.com/o/r/pull/7"}}`,
		"Empty":        `{"prompt":{"text":"x"},"review":{}}`,
		"PresetAlone":  `{"prompt":{"text":"x"},"repos":[{"url":"https://git.example.com/r"}],"env":{"type":"cloud","preset":"review"}}`,
	} {
		if a := h.call("POST", "/v1/agents", bad); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	made := h.want(h.call("POST", "/v1/agents", body(change, "")), 201)
	id, runID := made.text(t, "agent.id"), made.text(t, "run.id")
	if got := made.text(t, "agent.env.preset"); got != "review" {
		t.Errorf("preset %q", got)
	}
	h.append(id, runID, &agent.RunStarted{}, &agent.FindingsReported{Findings: []agent.Finding{{ID: "F-1", Path: "x", Line: 1, EndLine: 1, Severity: agent.High, Title: "Wrong", Body: "It is b."}}})
	if got := h.want(h.call("GET", "/v1/agents/"+id+"/findings", ""), 200); !strings.Contains(string(got.body), `"line":1,"endLine":1,"severity":"high","title":"Wrong"`) {
		t.Errorf("findings %s", got.body)
	}
	if got := h.want(h.call("GET", "/v1/agents/"+id+"/findings", ""), 200); strings.Contains(string(got.body), "posted") {
		t.Errorf("a review of a patch: %s", got.body)
	}
	other, _ := h.begin()
	if got := h.want(h.call("GET", "/v1/agents/"+other+"/findings", ""), 200); !strings.Contains(string(got.body), `"findings":[]`) {
		t.Errorf("findings of another agent: %s", got.body)
	}
}

// The findings on a pull request show whether they were posted.
func TestPostedReview(t *testing.T) {
	h := newHouse(t)
	id, runID := agent.NewID(), agent.NewRunID()
	head := int64(0)
	if _, err := h.store.Append(t.Context(), store.Append{AgentID: id, IfHead: &head, Events: []agent.Event{
		{Body: &agent.Created{Name: "review", Review: &agent.ReviewTask{PullRequest: &agent.ReviewedPull{URL: "https://git.example.com/o/r/pull/7", Commit: "c0ffee"}}}},
		{RunID: runID, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "x")}},
	}}); err != nil {
		t.Fatal(err)
	}
	h.append(id, runID, &agent.ReviewComposed{}, &agent.ReviewNotPosted{Failure: agent.Failure{Code: "forge_unreachable", Message: "it is down", Hint: "try again"}})
	for _, want := range []string{`"error":"it is down: try again"`, `"url":"https://git.example.com/o/r/pull/7#1"`} {
		got := h.want(h.call("GET", "/v1/agents/"+id+"/findings", ""), 200)
		if !strings.Contains(string(got.body), want) || !strings.Contains(string(got.body), `"pullRequest":"https://git.example.com/o/r/pull/7","commit":"c0ffee"`) {
			t.Errorf("findings %s, want %s", got.body, want)
		}
		h.append(id, runID, &agent.ReviewComposed{}, &agent.ReviewPosted{URL: "https://git.example.com/o/r/pull/7#1", Remarks: []string{"no status"}})
	}
}
