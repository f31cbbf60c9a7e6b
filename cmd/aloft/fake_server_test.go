package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	fakeKey   = "aloft_test"
	fakeAgent = "bc-11111111-2222-3333-4444-555555555555"
)

// fakeServer implements the API for one agent. The prompt controls its runs:
// "slow" runs until it is cancelled, "fail" ends in ERROR, and any other prompt
// ends in FINISHED.
type fakeServer struct {
	*httptest.Server

	mu      sync.Mutex
	changed chan struct{} // closed when events are added
	created time.Time
	name    string
	status  string
	repo    map[string]any
	pulls   []any // pull requests
	events  []map[string]any
	runs    []*fakeRun // oldest first
	stopped bool
	answer  map[string]any // the answer to the only request; nil until then
	rules   map[string]string
	queue   []any
}

type fakeRun struct {
	id, status, result string
	failure            map[string]any
	frames             []string
}

func newFakeServer() *fakeServer {
	s := &fakeServer{changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/agents", s.create)
	mux.HandleFunc("GET /v1/agents", s.list)
	mux.HandleFunc("GET /v1/agents/{id}", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, s.agent()) }))
	mux.HandleFunc("DELETE /v1/agents/{id}", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		s.name = ""
		reply(w, 200, map[string]any{"id": fakeAgent})
	}))
	mux.HandleFunc("PATCH /v1/agents/{id}", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Name string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.name = in.Name
		reply(w, 200, map[string]any{"id": fakeAgent})
	}))
	settings := map[string]any{"defaultRepository": ""}
	mux.HandleFunc("GET /v1/settings", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, settings) })
	mux.HandleFunc("PATCH /v1/settings", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&settings)
		reply(w, 200, settings)
	})
	for verb, status := range map[string]string{"archive": "ARCHIVED", "unarchive": "ACTIVE"} {
		mux.HandleFunc("POST /v1/agents/{id}/"+verb, s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
			s.status = status
			reply(w, 200, map[string]any{"id": fakeAgent})
		}))
	}
	mux.HandleFunc("POST /v1/agents/{id}/runs", s.ofAgent(s.followUp))
	mux.HandleFunc("POST /v1/agents/{id}/retry", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Turn   int
			Prompt struct{ Text string }
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.add("", "agent.rewound", map[string]any{"to": 3, "turn": max(in.Turn, 1)})
		reply(w, 201, map[string]any{"run": s.start(in.Prompt.Text).json(), "turn": max(in.Turn, 1), "replaced": 2})
	}))
	mux.HandleFunc("POST /v1/agents/{id}/queue", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Prompt struct{ Text string } }
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.queue = append(s.queue, map[string]any{"runId": "run-q", "text": in.Prompt.Text, "queuedAt": time.Now()})
		reply(w, 201, map[string]any{"runId": "run-q", "started": false})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/queue", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"items": s.queue}) }))
	mux.HandleFunc("DELETE /v1/agents/{id}/queue/run-q", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		s.queue = nil
		reply(w, 200, map[string]any{"id": "run-q"})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/runs", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		items := []any{}
		for i := range s.runs {
			items = append(items, s.runs[len(s.runs)-1-i].json())
		}
		reply(w, 200, map[string]any{"items": items})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/runs/{run}", s.ofRun(func(w http.ResponseWriter, r *fakeRun) { reply(w, 200, r.json()) }))
	mux.HandleFunc("GET /v1/agents/{id}/runs/{run}/stream", s.ofRun(func(w http.ResponseWriter, r *fakeRun) {
		_, _ = io.WriteString(w, strings.Join(r.frames, ""))
	}))
	mux.HandleFunc("POST /v1/agents/{id}/runs/{run}/cancel", s.ofRun(func(w http.ResponseWriter, r *fakeRun) {
		s.stopped = true
		s.end(r, "CANCELLED")
		reply(w, 200, map[string]any{"id": r.id})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/context", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"tokens": 12, "rules": []any{
			map[string]any{"source": "AGENTS.md", "from": "repository", "when": "always", "tokens": 12, "given": "yes"},
			map[string]any{"source": "web/.cursor/rules/ts.mdc", "from": "repository", "when": "files", "folder": "web", "globs": []string{"*.ts"}, "tokens": 3, "given": "no"},
			map[string]any{"source": "db.mdc", "from": "repository", "when": "request", "description": "How to\x1b[1m migrate", "tokens": 4, "given": "offered"},
		}, "leftOut": []any{map[string]any{"source": "CLAUDE.md", "why": "is not a text file"}}})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/mcp-servers", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{
			map[string]any{"name": "tickets", "source": "team", "state": "needs_auth"}, map[string]any{"name": "evil", "source": "project", "state": "left_out", "why": "the team has a server of that name"},
		}})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/journal", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"turns": 3, "todos": []map[string]string{
			{"id": "1", "content": "Look", "status": "completed"}, {"id": "2", "content": "Mend \x1b[1mit", "status": "in_progress"},
		}, "usage": map[string]int{
			"inputTokens": 10, "outputTokens": 5, "cacheWriteTokens": 3, "cacheReadTokens": 2, "totalTokens": 20,
		}})
	}))
	mux.HandleFunc("POST /v1/agents/{id}/ports/{port}/preview", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		reply(w, 201, map[string]any{"url": "http://" + r.PathValue("port") + ".p.test/", "signInUrl": "http://p.test/.aloft/sign-in?code=x", "expiresAt": time.Now()})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/connections", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		ended := []any{
			map[string]any{"seq": 1, "network": "tcp", "address": "192.0.2.1:443", "domain": "a.test", "sentBytes": 12, "receivedBytes": 3456, "allowed": true, "rule": "mode list"},
			map[string]any{"seq": 2, "network": "dns", "domain": "b.test", "rule": "mode list"},
		}
		if r.URL.Query().Get("after") != "0" {
			ended = nil
		}
		open := []any{map[string]any{"seq": 0, "network": "tcp", "address": "192.0.2.2:80", "allowed": true}}
		reply(w, 200, map[string]any{"open": open, "ended": ended})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/artifacts", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		var items []any
		for _, name := range []string{"report.txt", "a/b.txt", ".git/config", "c/.bashrc"} {
			items = append(items, map[string]any{"path": "artifacts/" + name, "sizeBytes": 3, "updatedAt": time.Unix(0, 0)})
		}
		reply(w, 200, map[string]any{"items": items})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/artifacts/download", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, map[string]any{"url": "http://" + r.Host + "/contents"})
	}))
	mux.HandleFunc("GET /contents", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "new") })
	mux.HandleFunc("GET /v1/agents/{id}/diff", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"truncated": false, "diff": "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n"})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/pull-requests", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": s.pulls})
	}))
	mux.HandleFunc("POST /v1/agents/{id}/pull-requests", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Title, Body, Base string
			Draft             bool
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Base == "nowhere" {
			refuse(w, 400, "ref_not_found", "base: the repository has no branch nowhere")
			return
		}
		s.pulls = []any{map[string]any{
			"repoUrl": "git.example.com/a/b", "branch": "aloft/x", "base": "main", "url": "https://git.example.com/a/b/pulls/7", "number": 7, "title": in.Title, "state": "open", "draft": in.Draft,
			"checksState": "failure", "checks": []any{map[string]any{"name": "test", "state": "failure", "summary": "2 failed"}},
		}}
		reply(w, 201, s.pulls[0])
	}))
	mux.HandleFunc("GET /v1/approvals", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"items": s.waiting()}) })
	mux.HandleFunc("POST /v1/agents/{id}/approvals/{approval}", s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&s.answer)
		reply(w, 200, map[string]any{"id": r.PathValue("approval")})
	}))
	mux.HandleFunc("/v1/rules/{owner}/{name}", s.ofRule)
	mux.HandleFunc("GET /v1/agents/{id}/events", s.listEvents)
	mux.HandleFunc("GET /v1/me", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"apiKeyName": "test", "createdAt": time.Now(), "userFirstName": "Ada", "userLastName": "\x1b[1mL"})
	})
	mux.HandleFunc("PATCH /v1/me/profile", func(w http.ResponseWriter, r *http.Request) {
		user := map[string]any{"id": 7, "role": "owner"}
		_ = json.NewDecoder(r.Body).Decode(&user)
		reply(w, 200, user)
	})
	mux.HandleFunc("PUT /v1/me/password", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Current, Password string }
		if _ = json.NewDecoder(r.Body).Decode(&in); in.Current != "old" || in.Password != "a horse, a battery" {
			refuse(w, 401, "unauthorized", "the password of before is wrong")
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/me/passkeys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"id": "AQID", "name": "\x1b[1mlaptop", "createdAt": time.Now()}}})
	})
	mux.HandleFunc("DELETE /v1/me/passkeys/AQID", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("POST /v1/sub-tokens", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ ForUserEmail string }
		if _ = json.NewDecoder(r.Body).Decode(&in); in.ForUserEmail != "ada@example.com" {
			refuse(w, 404, "not_found", "there is no such user")
			return
		}
		reply(w, 200, map[string]any{"accessToken": "aloft_sub", "expiresAt": time.Now(), "userId": 7, "teamId": 1})
	})
	mux.HandleFunc("GET /v1/repositories", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"url": "https://git.example.com/a/b"}}})
	})
	mux.HandleFunc("GET /v1/agents/{id}/terminals", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"name": "main", "command": "make\x1b[2J", "workingDirectory": "/workspace", "columns": 80, "rows": 24, "attached": 1}}})
	}))
	mux.HandleFunc("GET /v1/agents/{id}/webhook-deliveries", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"id": "d-1", "event": "statusChange", "runId": "run-1", "state": "failed", "attempts": 3, "createdAt": time.Now(), "lastStatusCode": 500}}})
	}))
	mux.HandleFunc("POST /v1/agents/{id}/webhook-deliveries/d-1/replay", s.ofAgent(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"id": "d-1"})
	}))
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		all := []any{map[string]any{"id": "evt-1", "source": "github", "connection": "acme", "kind": "issue_comment", "state": "ignored", "reason": "eve has no write access\x1b[2J", "attempts": 1, "receivedAt": time.Now()}}
		if s := r.URL.Query().Get("state"); s != "" && s != "ignored" {
			all = nil
		}
		reply(w, 200, map[string]any{"items": all})
	})
	mux.HandleFunc("POST /v1/events/evt-1/replay", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"id": "evt-1"})
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, map[string]any{"items": []any{
			map[string]any{"id": "house", "displayName": "House", "aliases": []string{"default"}}, map[string]any{"id": "other", "displayName": "Other"},
		}})
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/contents" && r.Header.Get("Authorization") != "Bearer "+fakeKey {
			refuse(w, 401, "unauthorized", "the API key is not one of this server")
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return s
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func (s *fakeServer) cancelled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

func (s *fakeServer) ofAgent(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.PathValue("id") != fakeAgent || s.name == "" {
			refuse(w, 404, "agent_not_found", "no agent "+r.PathValue("id"))
			return
		}
		do(w, r)
	}
}

func (s *fakeServer) ofRun(do func(http.ResponseWriter, *fakeRun)) http.HandlerFunc {
	return s.ofAgent(func(w http.ResponseWriter, r *http.Request) {
		for _, run := range s.runs {
			if run.id == r.PathValue("run") {
				do(w, run)
				return
			}
		}
		refuse(w, 404, "run_not_found", "no run "+r.PathValue("run"))
	})
}

func (s *fakeServer) agent() map[string]any {
	return map[string]any{
		"id": fakeAgent, "name": s.name, "status": s.status, "env": map[string]string{"type": "cloud"}, "url": "http://127.0.0.1/agents/" + fakeAgent,
		"createdAt": s.created, "updatedAt": s.created, "latestRunId": s.runs[len(s.runs)-1].id, "repos": []any{s.repo},
		"ports":     []any{map[string]any{"port": 3000, "name": "web: http"}, map[string]any{"port": 5432}},
		"runStatus": s.runs[len(s.runs)-1].status,
	}
}

func (r *fakeRun) json() map[string]any {
	out := map[string]any{"id": r.id, "agentId": fakeAgent, "status": r.status, "createdAt": time.Now(), "updatedAt": time.Now()}
	if r.status != "RUNNING" {
		out["durationMs"], out["result"] = 1500, r.result
		out["git"] = map[string]any{"branches": []any{map[string]string{"repoUrl": "git.example.com/a/b", "branch": "aloft/fix-c0de"}}}
	}
	if r.failure != nil {
		out["error"] = r.failure
	}
	return out
}

func (s *fakeServer) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := []any{}
	q := r.URL.Query()
	q.Del("limit")
	if q.Get("order") == "asks-first" { // the panel sends this order; there is at most one agent
		q.Del("order")
	}
	plain := len(q) == 1 && q.Has("includeArchived")
	narrowed := q.Encode() == "all=true&from=2030-01-01&includeArchived=false&repository=acme%2Fshop&search=flaky+cart&status=needs-you&to=2030-01-31&user=7"
	search := q.Get("search")
	found := q.Encode() == "all=true&includeArchived=true&search="+url.QueryEscape(search) && strings.Contains(fakeAgent+" "+s.name, search)
	if s.name != "" && (plain || narrowed || found) {
		items = append(items, s.agent())
	}
	reply(w, 200, map[string]any{"items": items})
}

func (s *fakeServer) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Prompt struct {
			Text   string
			Images []struct{ Data, MIMEType string }
		}
		Name  string
		Model *struct{ ID string }
		Repos []map[string]any

		BranchName, RunMode string
		WorkOnCurrentBranch bool
		Env                 struct{ Name string }
		Webhook             struct{ URL, Secret string }
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Repos) != 1 {
		refuse(w, 400, "validation_error", "repos: want one")
		return
	}
	if in.Model != nil && in.Model.ID != "house" {
		refuse(w, 400, "validation_error", "model.id: there is no model "+in.Model.ID)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.status, s.repo, s.created = in.Name, "ACTIVE", in.Repos[0], time.Now()
	if s.name == "" {
		s.name = "\x1b[31m" + in.Prompt.Text
	}
	for _, im := range in.Prompt.Images {
		s.name += " with " + im.MIMEType
	}
	for _, said := range []string{in.BranchName, in.Env.Name, in.Webhook.URL, in.Webhook.Secret} {
		if said != "" {
			s.name += " " + said
		}
	}
	s.add("", "agent.created", map[string]any{"name": s.name})
	run := s.start(in.Prompt.Text)
	reply(w, 201, map[string]any{"agent": s.agent(), "run": run.json()})
}

func (s *fakeServer) followUp(w http.ResponseWriter, r *http.Request) {
	var in struct{ Prompt struct{ Text string } }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, 400, "validation_error", "not JSON")
		return
	}
	if s.runs[len(s.runs)-1].status == "RUNNING" {
		refuse(w, 409, "agent_busy", "the agent works on another prompt")
		return
	}
	reply(w, 201, map[string]any{"run": s.start(in.Prompt.Text).json()})
}

// start starts a run, and ends it unless the prompt is "slow".
func (s *fakeServer) start(prompt string) *fakeRun {
	run := &fakeRun{id: fmt.Sprintf("run-%d", len(s.runs)+1), status: "RUNNING"}
	s.runs = append(s.runs, run)
	blocks := func(b ...any) map[string]any { return map[string]any{"blocks": b} }
	s.add(run.id, "run.created", map[string]any{"prompt": blocks(map[string]any{"text": prompt})})
	s.add(run.id, "run.started", map[string]any{})
	s.add(run.id, "boot.step", map[string]any{"name": "machine", "state": "running"})
	s.add(run.id, "boot.step", map[string]any{"name": "machine", "state": "done", "durationMs": 40})
	switch prompt {
	case "slow":
		s.add(run.id, "text.delta", map[string]any{"text": "Working on it"})
		return run
	case "fail":
		run.failure = map[string]any{"code": "ref_not_found", "message": "there is no ref nosuch", "hint": "name another with --ref"}
		s.end(run, "ERROR")
		return run
	}
	s.add(run.id, "text.delta", map[string]any{"text": "I fix \x1b]0;evil\x07it."})
	s.add(run.id, "turn.replied", map[string]any{"message": blocks(map[string]any{"text": "I fix \x1b]0;evil\x07it."},
		map[string]any{"call": map[string]any{"id": "c1", "name": "Shell", "args": map[string]any{"command": "make test"}}})})
	s.add(run.id, "call.sent", map[string]any{"callId": "c1"})
	s.add(run.id, "call.done", map[string]any{"callId": "c1", "text": "exit code 0\n\x1b[2Jok\n", "durationMs": 1234})
	s.add(run.id, "pushed", map[string]any{"repoUrl": "https://git.example.com/a/b", "branch": "aloft/fix-c0de", "commit": "0123456789abcdef"})
	run.result = "It is fixed."
	s.end(run, "FINISHED")
	return run
}

func (s *fakeServer) end(run *fakeRun, status string) {
	run.status = status
	s.add(run.id, "run.ended", map[string]any{"status": status, "result": run.result, "failure": run.failure})
	frame := func(n int, event string, data any) {
		line, _ := json.Marshal(data)
		run.frames = append(run.frames, fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", n, event, line))
	}
	frame(1, "assistant", map[string]any{"text": "I fix it."})
	if run.failure != nil {
		frame(2, "error", run.failure)
	}
	frame(3, "result", map[string]any{"runId": run.id, "status": status})
	frame(4, "done", map[string]any{})
}

func (s *fakeServer) add(runID, kind string, data map[string]any) {
	s.events = append(s.events, map[string]any{
		"seq": len(s.events) + 1, "time": time.Unix(1_900_000_000, int64(len(s.events))*1e6), "runId": runID, "kind": kind, "data": data,
	})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *fakeServer) listEvents(w http.ResponseWriter, r *http.Request) {
	sent := 0
	if s := r.URL.Query().Get("after"); s != "" {
		_, _ = fmt.Sscan(s, &sent)
	}
	for {
		s.mu.Lock()
		if r.PathValue("id") != fakeAgent || s.name == "" {
			s.mu.Unlock()
			refuse(w, 404, "agent_not_found", "no agent "+r.PathValue("id"))
			return
		}
		news, changed := s.events[min(sent, len(s.events)):], s.changed
		s.mu.Unlock()
		for _, e := range news {
			_ = json.NewEncoder(w).Encode(e)
			sent++
		}
		_ = http.NewResponseController(w).Flush()
		if r.URL.Query().Get("follow") != "true" {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// waiting returns the agent's only request until it is answered.
func (s *fakeServer) waiting() []any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		return []any{}
	}
	return []any{map[string]any{
		"id": "apr-1", "agentId": fakeAgent, "runId": "run-1", "callId": "c", "tool": "Shell", "subject": "npm test\n\x1b[2Krm x", "reason": "to see",
		"why": "no entry allows npm", "entries": []string{"npm test"}, "askedAt": time.Now(),
	}, map[string]any{
		"id": "apr-q", "agentId": fakeAgent, "runId": "run-1", "callId": "d", "tool": "AskQuestion", "subject": "The store", "entries": []string{}, "askedAt": time.Now(),
		"questions": []any{map[string]any{"id": "db", "prompt": "Which?\x1b[2K", "options": []any{map[string]any{"id": "pg", "label": "PostgreSQL"}, map[string]any{"id": "lite", "label": "SQLite"}}}},
	}}
}

func (s *fakeServer) ofRule(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := r.PathValue("owner") + "/" + r.PathValue("name")
	if r.Method == http.MethodPut {
		var in struct{ Text string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		if strings.Contains(in.Text, "wrong") {
			refuse(w, 400, "validation_error", "text: line 1: wrong")
			return
		}
		if s.rules == nil {
			s.rules = map[string]string{}
		}
		s.rules[key] = in.Text
	}
	reply(w, 200, map[string]any{"owner": r.PathValue("owner"), "name": r.PathValue("name"), "text": s.rules[key]})
}
