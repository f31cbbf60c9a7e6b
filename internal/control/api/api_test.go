package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/accounts"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/automations"
	"aloft/internal/control/api/connect"
	"aloft/internal/control/api/environments"
	"aloft/internal/control/api/mcpservers"
	"aloft/internal/control/api/memories"
	"aloft/internal/control/api/modelchoice"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/identity"
	"aloft/internal/control/ledger"
	"aloft/internal/control/model"
	"aloft/internal/control/review"
	"aloft/internal/control/safe"
	"aloft/internal/control/signin"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/policy"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The API keys of the four users that every test server has.
const (
	annsKey    = "aloft_anns"
	bensKey    = "aloft_bens"
	viewersKey = "aloft_viewers"
	adminsKey  = "aloft_admins"
)

// A house is an API server with a real store, four users, and a fake scheduler
// that does only what the test tells it.
type house struct {
	remembered int // number of memories
	t          *testing.T
	dir        string
	store      *sqlite.Store
	api        *server
	http       *httptest.Server
	work       *work
	log        *logbook
	safe       *safe.Safe

	connecting connecting

	disks       environments.Disks // nil if the server saves no disks
	project     map[string][]byte  // files of every agent's repository
	ports       []environment.Port
	environment environment.Environment // the environment of all agents
}

// work is a scheduler that records the API's calls.
type work struct {
	mu      sync.Mutex
	woken   []string
	removed []string
	diff    func(id string) (string, bool, error)
	port    string // address or socket to which every machine port leads; "" refuses connections
}

func (w *work) DialPort(ctx context.Context, id string, port uint16) (net.Conn, error) {
	if w.port == "" {
		return nil, fault.NotFound("nothing is listening on port %d in the machine", port)
	}
	var d net.Dialer
	if strings.HasPrefix(w.port, "/") {
		return d.DialContext(ctx, "unix", w.port)
	}
	return d.DialContext(ctx, "tcp", w.port)
}

func (w *work) Forget(context.Context, string) error { return nil }

func (w *work) Connections(_ context.Context, id string, after uint64, limit int) (policy.Connections, error) {
	return policy.Connections{Ended: []policy.Connection{{Seq: after + 1, Network: "tcp", Address: "192.0.2.1:443", Domain: "a.test", Rule: fmt.Sprintf("limit %d", limit)}}}, nil
}

func (w *work) Wake(id string) { w.mu.Lock(); defer w.mu.Unlock(); w.woken = append(w.woken, id) }

func (w *work) Remove(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed = append(w.removed, id)
	return nil
}

func (w *work) Diff(_ context.Context, id string) (string, bool, error) {
	if w.diff == nil {
		return "", false, errors.New("no machine")
	}
	return w.diff(id)
}

// logbook is a log that a test can read.
type logbook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.b.Write(p) }
func (l *logbook) String() string              { l.mu.Lock(); defer l.mu.Unlock(); return l.b.String() }

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), work: &work{}, log: &logbook{}}
	h.openStore()
	for _, of := range []struct {
		key  string
		role account.Role
	}{{annsKey, account.Owner}, {bensKey, account.Member}, {viewersKey, account.Viewer}, {adminsKey, account.Admin}} {
		key := of.key
		u, err := h.store.AddUser(t.Context(), account.User{Email: strings.TrimPrefix(key, "aloft_") + "@example.com", FirstName: "A", Role: of.role})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.store.AddKey(t.Context(), account.APIKey{Name: "test", UserID: u.ID, Hash: account.HashKey(key)}); err != nil {
			t.Fatal(err)
		}
	}
	h.serve()
	return h
}

func (h *house) openStore() {
	h.t.Helper()
	s, err := sqlite.Open(h.t.Context(), filepath.Join(h.dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		h.t.Fatal(err)
	}
	h.store = s
	h.t.Cleanup(func() { _ = s.Close() })
}

// issuer returns an issuer with keys that all tests share, since generating
// them is slow.
func (h *house) issuer() *identity.Issuer {
	h.t.Helper()
	path := filepath.Join(h.dir, "identity.pem")
	made.Lock()
	defer made.Unlock()
	if made.keys != nil {
		if err := os.WriteFile(path, made.keys, 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	i, err := identity.Open(path, func() string { return "http://aloft.test" })
	if err != nil {
		h.t.Fatal(err)
	}
	if made.keys, err = os.ReadFile(path); err != nil {
		h.t.Fatal(err)
	}
	return i
}

var made struct {
	sync.Mutex
	keys []byte
}

func (h *house) serve() {
	h.t.Helper()
	h.openSafe()
	desk, err := signin.New(signin.Config{Store: h.store, PublicURL: func() string { return "http://aloft.test/" }})
	if err != nil {
		h.t.Fatal(err)
	}
	servers, agentMCP := h.mcp()
	api, err := newServer(Config{
		Shared: rest.Shared{
			Journal: h.store, Agents: h.store, Accounts: h.store, Rules: h.store, Saved: h.store, AuditLog: h.store, Secrets: h.safe, Work: h.work,
			AllowFile: true, PublicURL: func() string { return "http://aloft.test/" },
			Logger: slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		},
		Models:       modelchoice.Config{Models: []model.Info{{ID: "other", DisplayName: "Other"}, {ID: "house"}}, DefaultModel: "house"},
		Approvals:    approvals.Config{Review: review.New(review.Config{Rules: h.store})},
		MCPServers:   mcpservers.Config{MCP: servers, AgentMCP: agentMCP},
		Environments: environments.Config{Builds: h.store, Snapshots: h.store, Disks: h.disks}, Memories: memories.Config{Memories: h.store},
		Accounts: accounts.Config{
			SignIn: desk, Usage: h.store, Disk: ledger.New(slog.New(slog.DiscardHandler), ledger.Journals{Store: h.store}), Environments: allEnvironments{h},
			CheckHooks: func(text []byte) error {
				if !json.Valid(text) {
					return errors.New("it is no JSON")
				}
				return nil
			},
		},
		Agents: agents.Config{
			Outbound: h.outbound(), Deliveries: h.store,
			Ports:       func(context.Context, agent.Agent) ([]environment.Port, error) { return h.ports, nil },
			ProjectFile: func(_ context.Context, a agent.Agent, path string) ([]byte, error) { return h.project[path], nil },
		},
		Connect:     connect.Config{Values: h.safe, Server: &h.connecting},
		Automations: automations.Config{Store: h.store, Desk: h.automations()},
		Identity:    h.issuer(), Replies: h.store, Hooks: h.inbox(), Inbox: h.store, Version: "1.2.3",
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.api = api
	h.http = httptest.NewServer(api.handler())
	h.t.Cleanup(h.http.Close)
}

// restart simulates a crash and restart of the server: it closes all
// connections, and keeps only the database.
func (h *house) restart() {
	h.http.CloseClientConnections()
	h.http.Close()
	if err := h.store.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.openStore()
	h.serve()
}

// An answer is a complete HTTP reply.
type answer struct {
	status int
	header http.Header
	body   []byte
	sent   int // bytes on the wire
}

func (a answer) get(t *testing.T, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("no %s in %s", path, a.body)
		}
		v = m[name]
	}
	return v
}

func (a answer) text(t *testing.T, path string) string {
	t.Helper()
	s, _ := a.get(t, path).(string)
	return s
}

// call sends a request as Ann and checks the reply against the specification.
func (h *house) call(method, path, body string, header ...string) answer {
	h.t.Helper()
	return h.callAs(annsKey, method, path, body, header...)
}

func (h *house) callAs(key, method, path, body string, header ...string) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.http.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := *h.http.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, data, len(data)}
	if resp.Header.Get("Content-Encoding") == "gzip" { // only if the caller has requested gzip
		a.body = gunzip(h.t, data)
	}
	if a.header.Get("X-Request-Id") == "" {
		h.t.Errorf("%s %s: no request id", method, path)
	}
	if method != http.MethodHead {
		if err := conforms(method, path, a); err != nil {
			h.t.Errorf("%s %s: %d %s: %v", method, path, a.status, a.body, err)
		}
	}
	return a
}

// want fails the test unless the reply has the status.
func (h *house) want(a answer, status int) answer {
	h.t.Helper()
	if a.status != status {
		h.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

const task = `{"prompt":{"text":"Mend the failing test"},"repos":[{"url":"https://git.example.com/o/r.git","startingRef":"main"}]}`

// begin creates an agent and returns its id and its run's id.
func (h *house) begin() (id, runID string) {
	h.t.Helper()
	a := h.want(h.call("POST", "/v1/agents", task), 201)
	return a.text(h.t, "agent.id"), a.text(h.t, "run.id")
}

// append journals events as the agent's loop would.
func (h *house) append(id, runID string, bodies ...agent.Body) []agent.Event {
	h.t.Helper()
	var events []agent.Event
	for _, b := range bodies {
		events = append(events, agent.Event{RunID: runID, Body: b})
	}
	done, err := h.store.Append(h.t.Context(), store.Append{AgentID: id, Events: events})
	if err != nil {
		h.t.Fatal(err)
	}
	return done
}

// someWork returns the events of a run, with every kind that a stream shows.
func someWork() []agent.Body {
	call := conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
		{Thinking: &conversation.Thinking{Text: "Hm. Look."}},
		{Text: "I look at it."},
		{Call: &conversation.ToolCall{ID: "c1", Name: "Shell", Args: json.RawMessage(`{"command":"go test\n./..."}`)}},
		{Call: &conversation.ToolCall{ID: "c2", Name: "Invented", Args: json.RawMessage(`"not JSON"`)}},
	}}
	return []agent.Body{
		&agent.RunStarted{},
		&agent.MachineMade{MachineID: "m1"},
		&agent.BootStep{Name: "checkout", State: "done", DurationMS: 12},
		&agent.MachineReady{MachineID: "m1", BootID: "b1", Branch: "aloft/x"},
		&agent.ThinkingDelta{Text: "Hm. "},
		&agent.TextDelta{Text: "I lo"},
		&agent.ModelRetry{Reason: "model_stream_cut", Attempt: 1},
		&agent.ThinkingDelta{Text: "Hm. "},
		&agent.ThinkingDelta{Text: "Look."},
		&agent.TextDelta{Text: "I look "},
		&agent.TurnReplied{Message: call, Stop: "calls", Usage: conversation.Usage{Input: 10, Output: 5}},
		&agent.CallSent{CallID: "c1", BootID: "b1"},
		&agent.CallDelta{CallID: "c1", Stdout: "FAIL\r\n\u2028x", Stderr: "warning"},
		&agent.CallDone{CallID: "c1", Text: "FAIL", Output: json.RawMessage(`{"success":{"exitCode":1,"stdout":"FAIL"}}`), DurationMS: 3},
		&agent.CallDone{CallID: "c2", Text: "there is no tool Invented", Error: true},
		&agent.Compacted{Summary: "so far", Keep: 2, Usage: conversation.Usage{Input: 3}},
		&agent.TextDelta{Text: "Done."},
		&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "Done."), Stop: "end", Usage: conversation.Usage{Input: 20, Output: 6, CacheRead: 2}},
		&agent.Pushed{RepoURL: "https://git.example.com/o/r.git", Branch: "aloft/x", Commit: "abc"},
	}
}

func finish() agent.Body { return &agent.RunEnded{Status: agent.Finished, Result: "Done."} }

// The specifications of both versions of the API.
var (
	specification = readSpecification("rest-v1.json")
	legacySpec    = readSpecification("rest-v0.json")
)

func readSpecification(name string) func() (map[string]any, error) {
	return sync.OnceValues(func() (map[string]any, error) {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return nil, err
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return doc.(map[string]any), nil
	})
}

// specificationOf returns the specification of the API version to which the
// path belongs.
func specificationOf(path string) (name string, doc map[string]any, err error) {
	if strings.HasPrefix(path, legacyPrefix) {
		doc, err = legacySpec()
		return "v0", doc, err
	}
	doc, err = specification()
	return "v1", doc, err
}

var compiled sync.Map // JSON pointer to *jsonschema.Schema

// schemaAt compiles a part of the path's specification, including checks of
// formats.
func schemaAt(path, pointer string) (*jsonschema.Schema, error) {
	name, doc, err := specificationOf(path)
	if s, ok := compiled.Load(name + pointer); ok {
		return s.(*jsonschema.Schema), nil
	}
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("http://spec/"+name, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile("http://spec/" + name + "#" + pointer)
	if err != nil {
		return nil, err
	}
	compiled.Store(name+pointer, s)
	return s, nil
}

// conforms checks a reply against the specification. The status and body of a
// listed operation must match its schemas; every error must have the common
// shape.
func conforms(method, path string, a answer) error {
	if a.status == http.StatusNoContent || a.header.Get("Content-Type") != "application/json" {
		return nil
	}
	if path == "/openapi.json" || a.status == 200 && path == "/healthz" {
		return nil
	}
	pointer := "/components/schemas/Error"
	if a.status < 400 {
		if pointer = specPointer(method, path, a.status); pointer == "" {
			return nil
		}
	}
	if _, op := specOperation(method, path); op != nil && a.status != http.StatusUnsupportedMediaType {
		if op["responses"].(map[string]any)[strconv.Itoa(a.status)] == nil {
			return errors.New("the specification does not list this status")
		}
	}
	if a.status >= 400 && strings.HasPrefix(path, legacyPrefix) {
		return legacyError(a.body)
	}
	s, err := schemaAt(path, pointer)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// specPointer returns a JSON pointer to the schema of a reply, or "" if the
// specification lacks the operation.
func specPointer(method, path string, status int) string {
	pattern, op := specOperation(method, path)
	if op == nil {
		return ""
	}
	return fmt.Sprintf("/paths/%s/%s/responses/%d/content/application~1json/schema",
		strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(pattern), strings.ToLower(method), status)
}

// specOperation finds an operation in the specification. It returns nil if the
// specification lacks the operation.
func specOperation(method, path string) (pattern string, op map[string]any) {
	path, _, _ = strings.Cut(path, "?")
	path = strings.TrimSuffix(path, "/")
	_, doc, err := specificationOf(path)
	if err != nil {
		panic(err)
	}
	for pattern, item := range doc["paths"].(map[string]any) {
		if op, ok := item.(map[string]any)[strings.ToLower(method)].(map[string]any); ok && samePath(pattern, path) {
			return pattern, op
		}
	}
	return "", nil
}

func samePath(pattern, path string) bool {
	p, q := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] && !strings.HasPrefix(p[i], "{") {
			return false
		}
	}
	return true
}

// eventually waits until the condition is true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 2 minutes: %s", what)
		case <-tick.C:
		}
	}
}
