package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/environment"
	"aloft/internal/policy/permit"
)

// asks makes the agent ask for approval, and returns the path for the answer.
func (h *house) asks(id, runID, tool, subject string, entries ...string) string {
	h.t.Helper()
	q := agent.Approval{
		ID: agent.NewApprovalID(), RunID: runID, CallID: "c1", Tool: tool, Subject: subject, Reason: "to see", Why: "no entry allows it",
		Entries: entries, AskedAt: time.Now(), Until: time.Now().Add(time.Hour),
	}
	h.append(id, runID, &agent.ApprovalAsked{Approval: q})
	return "/v1/agents/" + id + "/approvals/" + q.ID
}

func (h *house) waiting(path string) int {
	h.t.Helper()
	return len(h.want(h.call("GET", path, ""), 200).get(h.t, "items").([]any))
}

func TestApprovalIsAnswered(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := h.asks(id, runID, "Shell", "npm test", "npm test")
	if n := h.waiting("/v1/approvals"); n != 1 || h.waiting("/v1/agents/"+id+"/approvals") != 1 {
		t.Errorf("%d questions wait", n)
	}
	if a := h.callAs(bensKey, "GET", "/v1/approvals", ""); len(a.get(t, "items").([]any)) != 0 {
		t.Errorf("ben sees ann's: %s", a.body)
	}
	shown := h.want(h.call("GET", "/v1/agents/"+id, ""), 200)
	if shown.get(t, "waitingApprovals") != 1.0 || !strings.Contains(string(shown.body), `"subject":"npm test"`) {
		t.Errorf("the agent does not show it: %s", shown.body)
	}
	h.want(h.callAs(bensKey, "POST", path, `{"decision":"allow_once"}`), 404)
	h.want(h.call("POST", path, `{"decision":"deny","message":"use make test"}`), 200)
	if n := h.waiting("/v1/approvals"); n != 0 {
		t.Errorf("%d questions wait after the answer", n)
	}
	late := h.want(h.call("POST", path, `{"decision":"allow_once"}`), 409)
	if late.text(t, "error.code") != "approval_answered" || !strings.Contains(late.text(t, "error.message"), "anns@example.com") || !strings.Contains(late.text(t, "error.message"), "deny") {
		t.Errorf("whoever came late is told %s", late.body)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/approvals/apr-none", `{"decision":"deny"}`), 404)
	denied := h.asks(id, runID, "Shell", "cp a b", "cp")
	h.append(id, runID, &agent.ApprovalAnswered{ApprovalID: denied[strings.LastIndex(denied, "/")+1:], Decision: agent.Deny, Message: "nobody answered in time"})
	if a := h.want(h.call("POST", denied, `{"decision":"allow_once"}`), 409); a.text(t, "error.code") != "approval_answered" || !strings.Contains(a.text(t, "error.message"), "the timeout") {
		t.Errorf("whoever came after its time is told %s", a.body)
	}
	closed := h.asks(id, runID, "Shell", "ls", "ls")
	h.append(id, runID, &agent.RunEnded{Status: agent.Cancelled})
	if a := h.want(h.call("POST", closed, `{"decision":"deny"}`), 409); a.text(t, "error.code") != "approval_closed" {
		t.Errorf("got %s", a.body)
	}
}

// If many people answer at once, the first answer counts, and the others are
// told what it was.
func TestManyAnswerAtOnce(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	path := h.asks(id, runID, "Shell", "npm test", "npm test")
	answers := make([]answer, 8)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			decision := []string{"deny", "allow_once"}[i%2]
			answers[i] = h.call("POST", path, fmt.Sprintf(`{"decision":%q,"message":"I am %d"}`, decision, i))
		})
	}
	all.Wait()
	counted := 0
	for _, a := range answers {
		switch {
		case a.status == http.StatusOK:
			counted++
		case a.status != http.StatusConflict || a.text(t, "error.code") != "approval_answered":
			t.Errorf("got %d %s", a.status, a.body)
		}
	}
	events := string(h.call("GET", "/v1/agents/"+id+"/events", "").body)
	if written := strings.Count(events, `"approval.answered"`); counted != 1 || written != 1 {
		t.Errorf("%d answers were taken, %d are in the journal", counted, written)
	}
}

func TestAllowAlwaysWritesThePermissions(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	const mine = "{\n  // what I trust\n  \"terminalAllowlist\": [\"make\"],\n}"
	h.want(h.call("PUT", "/v1/rules/me/permissions.json", `{"text":`+asJSON(mine)+`}`), 200)
	path := h.asks(id, runID, "Shell", "make && npm test", "npm test")
	for body, want := range map[string]string{
		`{"decision":"allow_always","entries":["npm publish"]}`: "would still not be allowed",
		`{"decision":"allow_always","entries":[]}`:              "only once",
		`{"decision":"allow_once","entries":["npm test"]}`:      "only be used with allow_agent and allow_always",
		`{"decision":"allow_agent","entries":[" "]}`:            "entries[0]",
		`{"decision":"yes"}`:                                    "must be one of",
	} {
		if a := h.want(h.call("POST", path, body), 400); !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	h.want(h.call("POST", path, `{"decision":"allow_always"}`), 200)
	text := h.want(h.call("GET", "/v1/rules/me/permissions.json", ""), 200).text(t, "text")
	if !strings.Contains(text, `"npm test"`) || !strings.Contains(text, "// what I trust") {
		t.Errorf("the file is %s", text)
	}
	h.want(h.call("POST", path, `{"decision":"allow_always"}`), 200) // the repeat of a client that missed the first reply
	if again := h.call("GET", "/v1/rules/me/permissions.json", "").text(t, "text"); again != text {
		t.Errorf("a repeat has made it %s", again)
	}
	for _, q := range []string{h.asks(id, runID, "WebFetch", "https://a.test/x", "a.test"), h.asks(id, runID, "Write", "write .aloft/hooks.json")} {
		h.want(h.call("POST", q, `{"decision":"allow_always"}`), 400)
	}
	h.want(h.call("PUT", "/v1/rules/team/permissions.json", `{"text":"{}"}`), 200)
	if a := h.want(h.call("POST", h.asks(id, runID, "Shell", "ls", "ls"), `{"decision":"allow_always"}`), 400); !strings.Contains(string(a.body), "the team has") {
		t.Errorf("under a team's file: %s", a.body)
	}
}

func TestRulesAreChecked(t *testing.T) {
	h := newHouse(t)
	for _, c := range []struct {
		path, text, want string
		status           int
	}{
		{"me/permissions.json", `{"terminalAllowlist": "make"}`, "terminalAllowlist must be a list", 400},
		{"me/permissions.json", "{\n\"a\" 1}", "line 2", 400},
		{"me/sandbox.json", `{"type":"open"}`, "type is", 400},
		{"me/sandbox.json", `{"tpye":"workspace_readonly"}`, "tpye", 200},
		{"me/hooks.json", `{}`, "", 200},
		{"me/hooks.json", `[`, "no JSON", 400},
		{"team/hooks.json", `{`, "no JSON", 400},
		{"team/hooks.json", `{"version":1}`, "", 200},
		{"me/run-mode", "careful", "one of", 400},
		{"me/run-mode", " allowlist\n", `"allowlist"`, 200},
		{"me/run-mode", "", `"text":""`, 200},
		{"team/deny-after", "8", "invalid duration", 400},
		{"team/deny-after", "0s", "invalid duration", 400},
		{"team/deny-after", "9000h", "invalid duration", 400},
		{"team/deny-after", "8h\n", `"8h"`, 200},
		{"me/deny-after", "30m", `"30m"`, 200},
		{"me/passwd", "x", "unknown rule file", 404},
		{"you/run-mode", "x", "unknown rule owner", 404},
		{"me/permissions.json", strings.Repeat(" ", permit.MaxFile) + "{}", "bytes", 400},
	} {
		if a := h.want(h.call("PUT", "/v1/rules/"+c.path, `{"text":`+asJSON(c.text)+`}`), c.status); !strings.Contains(string(a.body), c.want) {
			t.Errorf("%s: %s", c.path, a.body)
		}
	}
	h.want(h.call("PUT", "/v1/rules/me/run-mode", `{}`), 400)
	h.want(h.callAs(bensKey, "PUT", "/v1/rules/team/run-mode", `{"text":"run-everything"}`), 403)
	if a := h.want(h.callAs(bensKey, "GET", "/v1/rules/me/run-mode", ""), 200); a.text(t, "text") != "" {
		t.Errorf("ben has ann's: %s", a.body)
	}
}

// The API shows the run mode that applies to the agent: the strictest of the
// configured modes.
func TestRunModeIsShown(t *testing.T) {
	h := newHouse(t)
	h.project = map[string][]byte{".cursorignore": []byte("# keys\n*.pem\n\n!public.pem\r\n")}
	a := h.want(h.call("POST", "/v1/agents", strings.Replace(task, "{", `{"runMode":"auto-review",`, 1)), 201)
	path := "/v1/agents/" + a.text(t, "agent.id")
	if got := h.call("GET", path, "").text(t, "runMode"); got != "auto-review" {
		t.Errorf("the mode is %q", got)
	}
	h.want(h.call("PUT", "/v1/rules/team/run-mode", `{"text":"allowlist"}`), 200)
	shown := h.want(h.call("GET", path, ""), 200)
	if shown.text(t, "runMode") != "allowlist" || fmt.Sprint(shown.get(t, "cursorIgnore")) != "[*.pem !public.pem]" {
		t.Errorf("got %s", shown.body)
	}
	if strings.Contains(string(shown.body), `"ports"`) {
		t.Errorf("ports of no environment: %s", shown.body)
	}
	h.ports = []environment.Port{{Port: 3000, Name: "web"}, {Port: 5432}}
	if shown := h.want(h.call("GET", path, ""), 200); !strings.Contains(string(shown.body), `"ports":[{"port":3000,"name":"web"},{"port":5432}]`) {
		t.Errorf("got %s", shown.body)
	}
	h.want(h.call("POST", "/v1/agents", strings.Replace(task, "{", `{"runMode":"yolo",`, 1)), 400)
}

func asJSON(s string) string {
	data, _ := json.Marshal(s) // marshaling a string cannot fail
	return string(data)
}

// While the team hides summaries, lists show no activities, no subjects of
// requests and no titles of pull requests. The agent's own page shows them all.
func TestHiddenSummaries(t *testing.T) {
	const secret = "marksummary"
	h := newHouse(t)
	h.want(h.call("PATCH", "/v1/settings", `{"displayAgentSummary":false}`), 200)
	id, runID := h.begin()
	h.append(id, runID, &agent.RunStarted{},
		&agent.Pushed{RepoURL: "https://git.example.com/o/r.git", Branch: "b", Commit: "c0ffee"},
		&agent.PullRequestOpened{By: agent.PullByRun, PullRequest: agent.PullRequest{RepoURL: "https://git.example.com/o/r.git", Branch: "b", URL: "https://git.example.com/o/r/pulls/1", Number: 1, Title: secret, State: "open"}},
		&agent.ApprovalAsked{Approval: agent.Approval{ID: "apr-1", RunID: runID, CallID: "c", Tool: "Shell", Subject: secret, Reason: secret, Why: secret, Change: secret, By: secret,
			Entries: []string{secret}, Questions: []agent.Question{{ID: "q", Prompt: secret}}, AskedAt: time.Now()}})
	for _, path := range []string{"/v1/agents", "/v1/approvals"} {
		a := h.want(h.call("GET", path, ""), 200)
		if strings.Contains(string(a.body), secret) || !strings.Contains(strings.ToLower(string(a.body)), "hidden\":true") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	for _, path := range []string{"/v1/agents/" + id, "/v1/agents/" + id + "/approvals"} {
		if a := h.want(h.call("GET", path, ""), 200); !strings.Contains(string(a.body), secret) {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	h.append(id, runID, &agent.RunEnded{Status: agent.Finished, Result: secret})
	if a := h.want(h.call("GET", "/v0/agents", ""), 200); strings.Contains(string(a.body), secret) {
		t.Errorf("/v0/agents: %s", a.body)
	}
	if a := h.want(h.call("GET", "/v0/agents/"+id, ""), 200); a.text(t, "summary") != secret {
		t.Errorf("/v0/agents/{id}: %s", a.body)
	}
}
