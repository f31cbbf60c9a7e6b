package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api"
	"aloft/internal/control/api/accounts"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/approvals"
	automationapi "aloft/internal/control/api/automations"
	"aloft/internal/control/api/connect"
	"aloft/internal/control/api/environments"
	"aloft/internal/control/api/mcpservers"
	memoryapi "aloft/internal/control/api/memories"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/automation"
	"aloft/internal/control/forge"
	forgefake "aloft/internal/control/forge/fake"
	"aloft/internal/control/gateway"
	"aloft/internal/control/identity"
	"aloft/internal/control/ledger"
	"aloft/internal/control/loop"
	"aloft/internal/control/loop/journal"
	"aloft/internal/control/loop/remote"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/control/model"
	"aloft/internal/control/observe"
	"aloft/internal/control/outbound"
	"aloft/internal/control/pull"
	"aloft/internal/control/review"
	"aloft/internal/control/safe"
	"aloft/internal/control/signin"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/control/team"
	"aloft/internal/control/webhook"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/hook"
	"aloft/internal/mcp"
	"aloft/internal/policy"
	"aloft/internal/rule"
	"aloft/internal/subagent"
	"aloft/internal/telemetry"
	"aloft/internal/telemetry/telemetrytest"
	"aloft/internal/tool"
)

// marks are words in the data of the test's runs. In privacy mode, they must
// not leave the server.
var marks = map[string]string{"prompt": "markprompt", "summary": "marksummary", "path": "markpath", "code": "markcode"}

// tellsNothing lists the channels that contain no data of a run in any mode.
var tellsNothing = []string{"telemetry"}

// An emitter is a server without machines that records everything it sends.
type emitter struct {
	t        *testing.T
	store    *sqlite.Store
	http     *httptest.Server
	observer *observe.Observer
	sent     *telemetry.Telemetry
	receiver *telemetrytest.Receiver
	forge    *forgefake.Forge
	repo     forge.Repo
	desk     *pull.Desk
	safe     *safe.Safe
	logger   *slog.Logger

	mu      sync.Mutex
	commits []string
	branch  string
	posted  []string        // in order of the first delivery
	known   map[string]bool // by X-Webhook-ID: a delivery may be repeated
}

const (
	emitterKey  = "aloft_emitter"
	emitterRepo = "https://git.test/o/r"
)

func newEmitter(t *testing.T, private bool) *emitter {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	e := &emitter{t: t, known: map[string]bool{}, receiver: telemetrytest.Start(t, "")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	e.store, err = sqlite.Open(ctx, filepath.Join(dir, "db"), slog.New(slog.DiscardHandler))
	must(err)
	t.Cleanup(func() { _ = e.store.Close() })
	u, err := e.store.AddUser(ctx, account.User{Email: "ann@example.com", Role: account.Owner})
	must(err)
	_, err = e.store.AddKey(ctx, account.APIKey{Name: "test", UserID: u.ID, Hash: account.HashKey(emitterKey)})
	must(err)
	e.settle(private)
	e.sent, err = telemetry.Open(telemetry.Config{Endpoint: e.receiver.URL, Insecure: true, Service: "aloft", Soon: true})
	must(err)
	e.logger = slog.New(e.sent.Handler(slog.DiscardHandler))
	e.observer, err = observe.New(observe.Config{Journal: e.store, Agents: e.store, Telemetry: e.sent, Privacy: (&team.Policy{Store: e.store}).Private, Logger: e.logger})
	must(err)
	t.Cleanup(func() { // close the observer before the store: its metrics count open runs every few seconds
		_ = errors.Join(e.observer.Close(context.WithoutCancel(ctx)), e.sent.Shutdown(context.WithoutCancel(ctx)))
	})
	keeper, err := safe.OpenKeeper(ctx, safe.LocalKeeper, filepath.Join(dir, "secret.key"))
	must(err)
	e.safe, err = safe.New(safe.Config{Store: e.store, Keepers: []safe.Keeper{keeper}})
	must(err)
	e.forge = forgefake.New("git.test")
	e.repo = e.forge.Add("o/r", "main")
	e.desk = pull.New(pull.Config{
		Forges: forge.Set{"git.test": e.forge}, Git: e, Journal: e.observer.Journal(), Secrets: func(string) map[string]string { return nil },
		Link:  func(id string) string { return "https://aloft.test/agents/" + id },
		Shown: (&team.Policy{Store: e.store}).ShownOutside, Privacy: (&team.Policy{Store: e.store}).Private, Logger: e.logger,
	})
	reach, err := outbound.New(policy.Network{Open: []string{"127.0.0.1"}})
	must(err)
	servers, err := controlmcp.New(controlmcp.Config{
		Vault: e.safe, Reach: reach, PublicURL: func() string { return "http://localhost" },
		Foreign: func(agent.Egress) (*outbound.Client, error) { return reach, nil },
	})
	must(err)
	signIn, err := signin.New(signin.Config{Store: e.store, PublicURL: func() string { return "http://localhost" }})
	must(err)
	issuer, err := identity.Open(filepath.Join(dir, "identity.pem"), func() string { return "http://localhost" })
	must(err)
	handler, err := api.New(api.Config{
		Shared: rest.Shared{
			Journal: e.observer.Journal(), Agents: e.store, Accounts: e.store, Rules: e.store, Saved: e.store, AuditLog: e.store,
			Secrets: e.safe, Work: idle{}, PublicURL: func() string { return "http://localhost" }, Logger: e.logger,
		},
		Models:       modelchoice.Config{Models: []model.Info{{ID: "house"}}, DefaultModel: "house"},
		Approvals:    approvals.Config{Review: review.New(review.Config{Rules: e.store})},
		Pulls:        pulls.Config{Pulls: e.desk},
		MCPServers:   mcpservers.Config{MCP: servers, AgentMCP: controlmcp.NewAgents(controlmcp.AgentsConfig{Servers: servers})},
		Environments: environments.Config{Builds: e.store, Snapshots: e.store},
		Accounts:     accounts.Config{SignIn: signIn, Usage: e.store, Disk: ledger.New(e.logger), CheckHooks: checkHooks},
		Agents: agents.Config{
			Outbound: reach, Deliveries: e.store,
			ProjectFile: func(context.Context, agent.Agent, string) ([]byte, error) { return nil, nil },
			Ports:       func(context.Context, agent.Agent) ([]environment.Port, error) { return nil, nil },
		},
		Connect: connect.Config{Values: e.safe, Server: &connector{}}, Memories: memoryapi.Config{Memories: e.store},
		Automations: automationapi.Config{Store: e.store, Desk: new(automation.Desk)},
		Replies:     e.store, Inbox: e.store, Identity: issuer, Tracer: e.sent.Tracer(),
	})
	must(err)
	e.http = httptest.NewServer(handler)
	t.Cleanup(e.http.Close)
	return e
}

// idle is a scheduler that does nothing, so that the test does the work.
type idle struct{ rest.Work }

func (idle) Wake(string) {}

// settle changes privacy mode for the following runs.
func (e *emitter) settle(private bool) {
	e.t.Helper()
	h, err := store.Settings(e.t.Context(), e.store)
	if err == nil {
		err = store.PutSettings(e.t.Context(), e.store, h.With(account.Settings{Privacy: private}, time.Now()))
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// call sends a request to the API, and returns the reply's text.
func (e *emitter) call(method, path, body string) string {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.http.URL+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+emitterKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		e.t.Fatalf("%s %s: %d %s %v", method, path, resp.StatusCode, data, err)
	}
	return string(data)
}

// begin creates an agent. The marks are in its prompt, its model's replies and
// its machine's output.
func (e *emitter) begin() (agentID string) {
	e.t.Helper()
	var made struct{ Agent struct{ ID string } }
	reply := e.call("POST", "/v1/agents", `{"prompt":{"text":"`+marks["prompt"]+` mend `+marks["path"]+`.go"},"repos":[{"url":"`+emitterRepo+`"}],"autoCreatePR":true,"checks":["cat `+marks["path"]+`"],
		"webhook":{"url":"http://127.0.0.1:1/hook","secret":"0123456789abcdef0123456789abcdef"}}`)
	if err := json.Unmarshal([]byte(reply), &made); err != nil {
		e.t.Fatal(err)
	}
	return made.Agent.ID
}

// work performs the agent's run as the scheduler would, and sends its webhooks.
func (e *emitter) work(agentID string) {
	e.t.Helper()
	said := marks["summary"] + " in " + marks["path"] + ".go: " + marks["code"]
	args, err := json.Marshal(map[string]any{"action": "PR_ACTION_CREATE", "title": said, "body": said})
	if err != nil {
		e.t.Fatal(err)
	}
	comment, err := json.Marshal(map[string]any{"action": "PR_ACTION_COMMENT", "body": said})
	if err != nil {
		e.t.Fatal(err)
	}
	steps := script{
		{Stop: model.StopCalls, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "c", Name: "PrManagement", Args: args}}}}},
		{Stop: model.StopCalls, Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "d", Name: "PrManagement", Args: comment}}}}},
		{Stop: model.StopEnd, Message: conversation.Text(conversation.Assistant, said)},
	}
	err = loop.Run(e.t.Context(), agentID, loop.Config{
		Journal: e.observer.Journal(), Models: loop.Models{Model: &steps, Info: model.Info{ID: "house"}}, Team: loop.Team{Privacy: (&team.Policy{Store: e.store}).Private}, Pulls: e.desk, Logger: e.logger.With("agent", agentID),
		Machine: func(ctx context.Context, s *agent.State, record journal.Record) (remote.Machine, error) {
			e.mu.Lock()
			e.branch = s.Branch
			e.mu.Unlock()
			asked := agent.Approval{ID: "apr-" + s.Run.ID, RunID: s.Run.ID, CallID: "c0", Tool: "Shell", Subject: "cat " + marks["path"] + " " + marks["code"], Why: marks["summary"], AskedAt: time.Now()}
			return recording{e: e}, record(ctx, &agent.MachineReady{MachineID: "m", BootID: "b", BaseCommit: strings.Repeat("a", 40), Branch: s.Branch}, &agent.ApprovalAsked{Approval: asked})
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, done := context.WithCancel(e.t.Context())
	defer done()
	e.mu.Lock()
	want := len(e.posted) + 2
	e.mu.Unlock()
	sender := webhook.New(webhook.Config{
		Store: e.store, Owner: "test", Webhook: e.safe.Webhook, Shown: (&team.Policy{Store: e.store}).ShownOutside, PublicURL: func() string { return "https://aloft.test" }, Every: time.Millisecond,
		Post: func(_ context.Context, _ string, header http.Header, body io.Reader) (int, error) {
			data, err := io.ReadAll(body)
			e.mu.Lock()
			defer e.mu.Unlock()
			var id string
			for name, values := range header { // under the names as sent, not canonicalized
				if strings.EqualFold(name, "X-Webhook-ID") {
					id = values[0]
				}
			}
			if !e.known[id] {
				e.known[id], e.posted = true, append(e.posted, string(data))
			}
			if len(e.posted) == want {
				done()
			}
			return http.StatusOK, err
		},
	})
	if err := sender.Run(ctx); err != nil {
		e.t.Fatal(err)
	}
}

// ways returns the text that was sent on each channel out of the server.
func (e *emitter) ways(agentID string) map[string]string {
	e.t.Helper()
	pulls, err := e.forge.Find(e.t.Context(), e.repo, e.branch)
	if err != nil || len(pulls) != 1 {
		e.t.Fatalf("%d pull requests: %v", len(pulls), err)
	}
	said := e.forge.Plain(e.repo, pulls[0].Number)
	if len(said) == 0 {
		e.t.Fatal("the agent has not commented")
	}
	if err := e.observer.Close(context.WithoutCancel(e.t.Context())); err != nil {
		e.t.Fatal(err)
	}
	if err := e.sent.Shutdown(context.WithoutCancel(e.t.Context())); err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return map[string]string{
		"commit message": strings.Join(e.commits, "\n"),
		"branch":         e.branch,
		"pull request":   pulls[0].Title + "\n" + pulls[0].Body,
		"comment":        said[len(said)-1].Body,
		"webhook":        strings.Join(e.posted, "\n"),
		"/v0 list":       e.call("GET", "/v0/agents", ""),
		"/v0 agent":      e.call("GET", "/v0/agents/"+agentID, ""),
		"telemetry":      e.receiver.Text(),
	}
}

// script is a model that gives its replies in order.
type script []model.Reply

func (s *script) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		next := (*s)[0]
		*s = (*s)[1:]
		yield(model.Event{Done: &next}, nil)
	}
}

// recording is a machine that always has changes to commit.
type recording struct {
	remote.Machine // methods that this test does not use
	e              *emitter
}

func (recording) BootID() string    { return "b" }
func (recording) Enforced() bool    { return false }
func (recording) Lacking() []string { return nil }
func (recording) Known() []string   { return nil }
func (recording) Servers(context.Context, *agent.State, []mcp.Server, time.Duration) ([]mcp.Listing, error) {
	return nil, nil
}
func (recording) Hooks(context.Context, *agent.State, hook.Call) (hook.Outcome, error) {
	return hook.Outcome{}, nil
}
func (recording) Unhooked(context.Context, agent.Agent) (bool, error) { return true, nil }
func (recording) Subagents(context.Context) ([]subagent.File, error)  { return nil, nil }
func (recording) Rules(context.Context, []rule.Folder) (rule.Set, error) {
	return rule.Set{Rules: []rule.Rule{{Source: "AGENTS.md", From: rule.Repository, When: rule.Always, Text: marks["code"]}}}, nil
}
func (recording) Ack(context.Context, string) error { return nil }
func (recording) Keep(context.Context) error        { return nil }
func (recording) Call(context.Context, conversation.ToolCall, func(remote.Delta)) (tool.Result, time.Duration, error) {
	return tool.Result{Text: marks["code"], Output: json.RawMessage(`{"success":{"exitCode":0}}`)}, time.Millisecond, nil
}

func (r recording) Commit(_ context.Context, _ int, message string, _ bool) (remote.Delivered, error) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	r.e.commits = append(r.e.commits, message)
	return remote.Delivered{Commit: strings.Repeat("c", 40), Made: true, Note: marks["path"] + ": " + marks["code"]}, nil
}

func (r recording) Push(_ context.Context, _ int, branch string, _ bool) (remote.Delivered, error) {
	r.e.forge.SetHead(r.e.repo, branch, strings.Repeat("c", 40))
	return remote.Delivered{Commit: strings.Repeat("c", 40), Note: "the pre-push hook said " + marks["path"] + ": " + marks["code"]}, nil
}

// Check is the first method of a fake git gateway. Its repository contains the
// agent's commits, which contain all marks.
func (e *emitter) Check(context.Context, string, string) (gateway.RefInfo, error) {
	return gateway.RefInfo{DefaultBranch: "main", Branch: "main", Branches: map[string]string{"main": strings.Repeat("a", 40), e.branch: strings.Repeat("c", 40)}}, nil
}

func (e *emitter) Log(context.Context, string, string, string, int) ([]gateway.Commit, error) {
	one := gateway.Commit{Subject: marks["summary"] + " " + marks["path"], Body: marks["code"]}
	return []gateway.Commit{one, one}, nil
}

func (e *emitter) Files(context.Context, string, string, []string) (gateway.Tree, error) {
	return gateway.Tree{}, nil
}

func (e *emitter) Change(context.Context, string, string, string, int) (gateway.Change, error) {
	return gateway.Change{}, errors.New("it has no pull requests to review")
}

func (e *emitter) Contents(context.Context, string, gateway.Blob, int64) ([]byte, error) {
	return nil, nil
}

// marksIn returns the marks that a text contains.
func marksIn(text string) (out []string) {
	for what, mark := range marks {
		if strings.Contains(strings.ToLower(text), mark) {
			out = append(out, what)
		}
	}
	return out
}

// TestPrivacy checks every channel out of the server. In privacy mode no
// channel may contain any part of a prompt, a summary, a path or code. Without
// privacy mode each channel must contain some, which proves that the test
// checks the right data.
func TestPrivacy(t *testing.T) {
	for _, private := range []bool{true, false} {
		e := newEmitter(t, private)
		id := e.begin()
		e.work(id)
		for way, text := range e.ways(id) {
			switch told := marksIn(text); {
			case text == "":
				t.Errorf("privacy %v: nothing went out by %s", private, way)
			case way == "webhook" && !strings.Contains(text, `"outcome":"done"`), way == "webhook" && private == strings.Contains(text, `"evidence"`),
				way == "pull request" && !private && !strings.Contains(text, "Checks: `cat "+marks["path"]):
				t.Errorf("privacy %v: %s has the wrong evidence: %s", private, way, text)
			case private && len(told) > 0:
				t.Errorf("%s tells of %v: %s", way, told, text)
			case !private && len(told) == 0 && !strings.Contains(strings.Join(tellsNothing, " "), way):
				t.Errorf("without privacy mode %s tells nothing, which this test would not notice: %s", way, text)
			}
		}
		if spans := e.receiver.Spans(); (spans["run"] != nil) == private {
			t.Errorf("privacy %v: the spans are %v", private, spans)
		}
	}
}

// TestPrivacyCountsFromTheNextRun enables privacy mode during a run. That run
// must not be affected, and the next one must be private.
func TestPrivacyCountsFromTheNextRun(t *testing.T) {
	e := newEmitter(t, false)
	id := e.begin()
	e.settle(true)
	e.work(id)
	first := len(e.posted)
	if len(marksIn(e.commits[0])) == 0 || len(marksIn(strings.Join(e.posted, ""))) == 0 || len(marksIn(e.call("GET", "/v0/agents/"+id, ""))) == 0 {
		t.Errorf("the run that had begun became private: %q, %q", e.commits, e.posted)
	}
	pulls, _ := e.forge.Find(t.Context(), e.repo, e.branch)
	e.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"`+marks["prompt"]+` again"}}`)
	e.settle(false) // the run has already begun
	e.work(id)
	// The branch got its name earlier, and keeps it.
	out := strings.ReplaceAll(strings.Join(append(e.posted[first:], e.commits[1], e.call("GET", "/v0/agents/"+id, "")), "\n"), e.branch, "")
	if told := marksIn(out); len(told) > 0 {
		t.Errorf("the next run tells of %v: %s", told, out)
	}
	now, err := e.forge.Find(t.Context(), e.repo, e.branch)
	if err != nil || len(now) != 1 || now[0].Title != pulls[0].Title || now[0].Body != pulls[0].Body {
		t.Errorf("the private run has changed the words of the pull request: %+v, then %+v, %v", pulls, now, err)
	}
	events, err := e.store.Read(t.Context(), id, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []bool
	for _, ev := range events {
		if b, ok := ev.Body.(*agent.RunStarted); ok && b.Privacy != nil {
			recorded = append(recorded, *b.Privacy)
		}
	}
	if len(recorded) != 2 || recorded[0] || !recorded[1] {
		t.Errorf("the journal has %v", recorded)
	}
}

// TestPrivacyOfAnEarlierRun disables privacy mode after a private run. The next run
// is not private, but must not reveal the earlier prompts, or the agent's name,
// which comes from them.
func TestPrivacyOfAnEarlierRun(t *testing.T) {
	e := newEmitter(t, true)
	id := e.begin()
	e.work(id)
	first := len(e.posted)
	e.settle(false)
	e.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"go on"}}`)
	e.work(id)
	pulls, err := e.forge.Find(t.Context(), e.repo, e.branch)
	if err != nil || len(pulls) != 1 {
		t.Fatalf("%d pull requests: %v", len(pulls), err)
	}
	said := e.forge.Plain(e.repo, pulls[0].Number)
	for way, text := range map[string]string{
		"commit message": e.commits[1], "pull request": pulls[0].Title + "\n" + pulls[0].Body, "comment": said[len(said)-1].Body,
		"webhook": strings.Join(e.posted[first:], "\n"), "/v0 list": e.call("GET", "/v0/agents", ""), "/v0 agent": e.call("GET", "/v0/agents/"+id, ""),
	} {
		switch {
		case strings.Contains(strings.ToLower(text), marks["prompt"]):
			t.Errorf("%s tells the prompt of a private run: %s", way, text)
		case way == "commit message" && text != "go on", way != "commit message" && len(marksIn(text)) == 0:
			t.Errorf("the run that is not private tells nothing by %s: %s", way, text)
		}
	}
}
