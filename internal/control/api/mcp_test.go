package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"aloft/internal/agent"
	controlmcp "aloft/internal/control/mcp"
	"aloft/internal/control/outbound"
	"aloft/internal/environment"
	"aloft/internal/mcp"
	"aloft/internal/secret"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcp configures the house with MCP servers.
func (h *house) mcp() (*controlmcp.Servers, *controlmcp.Agents) {
	h.t.Helper()
	servers, err := controlmcp.New(controlmcp.Config{
		Vault: h.safe, Reach: h.outbound(), PublicURL: func() string { return "http://aloft.test" }, Version: "test",
		Foreign: func(agent.Egress) (*outbound.Client, error) { return h.outbound(), nil },
	})
	if err != nil {
		h.t.Fatal(err)
	}
	agents := controlmcp.NewAgents(controlmcp.AgentsConfig{
		Servers:     servers,
		File:        func(_ context.Context, _ agent.Agent, _, path string) ([]byte, error) { return h.project[path], nil },
		Environment: func(context.Context, agent.Agent) (environment.Environment, error) { return h.environment, nil },
		Variables:   h.safe.ForAgent,
	})
	h.t.Cleanup(agents.Close)
	return servers, agents
}

// tickets starts an MCP server and returns its address. The server requires the
// key unless the key is "".
func tickets(t *testing.T, key string) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "tickets", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "show", Description: "Show a ticket.", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key != "" && r.Header.Get("X-Key") != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(at.Close)
	return at.URL
}

// mcpServerOfAnn returns the id of Ann's server called TOKEN, if the route
// needs one.
func (h *house) mcpServerOfAnn(route string) string {
	h.t.Helper()
	if !strings.Contains(route, "/mcp-servers/") {
		return ""
	}
	all, err := h.api.mcpservers.MCP.List(h.t.Context(), 1)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, k := range all {
		if k.Name == "TOKEN" { // remove the server of an earlier test, whose address is gone
			if err := h.api.mcpservers.MCP.Remove(h.t.Context(), k); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	k, err := h.api.mcpservers.MCP.Add(h.t.Context(), 1, false, mcp.Server{Name: "TOKEN", URL: tickets(h.t, "")})
	if err != nil {
		h.t.Fatal(err)
	}
	return k.ID
}

const mcpKey = "key-of-the-tickets-2026"

func TestMCPServersOverREST(t *testing.T) {
	h := newHouse(t)
	at := tickets(t, mcpKey)
	server := `{"name":"tickets","url":"` + at + `/mcp?team=secret-of-the-query","headers":{"X-Key":"` + mcpKey + `"},"auth":{"CLIENT_ID":"aloft","CLIENT_SECRET":"` + secretValue + `"},"owner":"team"}`
	h.want(h.callAs(bensKey, "POST", "/v1/mcp-servers", server), 403)
	made := h.want(h.call("POST", "/v1/mcp-servers", server, "Idempotency-Key", "k1"), 201)
	again := h.want(h.call("POST", "/v1/mcp-servers", server, "Idempotency-Key", "k1"), 201)
	if string(made.body) != string(again.body) {
		t.Errorf("a repeated request is answered %s, not %s", again.body, made.body)
	}
	h.want(h.call("POST", "/v1/mcp-servers", server), 409)
	id := made.text(t, "id")
	list := h.want(h.callAs(bensKey, "GET", "/v1/mcp-servers", ""), 200)
	for _, hidden := range []string{mcpKey, secretValue, "secret-of-the-query"} {
		if strings.Contains(string(made.body)+string(list.body), hidden) {
			t.Errorf("%s is shown: %s", hidden, list.body)
		}
	}
	if !strings.Contains(string(list.body), `"X-Key"`) || !strings.Contains(string(list.body), `"owner":"team"`) {
		t.Errorf("%s", list.body)
	}
	tried := h.want(h.callAs(bensKey, "POST", "/v1/mcp-servers/"+id+"/test", ""), 200)
	if tried.text(t, "state") != "ready" || !strings.Contains(string(tried.body), `"name":"show"`) {
		t.Errorf("%s", tried.body)
	}
	h.want(h.callAs(bensKey, "DELETE", "/v1/mcp-servers/"+id, ""), 403)
	h.want(h.call("DELETE", "/v1/mcp-servers/"+id, ""), 200)
	h.want(h.call("DELETE", "/v1/mcp-servers/"+id, ""), 404)
	for body, field := range map[string]string{
		`{"name":"x","url":"http://169.254.169.254/"}`:                                "url",
		`{"name":"x","url":"https://a.test","command":"x"}`:                           "",
		`{"name":"x y!","command":"x"}`:                                               "name",
		`{"name":"x","url":"https://a.test","headers":{"Host":"b.test"}}`:             "headers.Host",
		`{"name":"x","url":"https://a.test","auth":{}}`:                               "auth.CLIENT_ID",
		`{"name":"x","command":"y","env":{"A":"` + strings.Repeat("a", 40000) + `"}}`: "env.A",
	} {
		if got := h.want(h.call("POST", "/v1/mcp-servers", body), 400); field != "" && !strings.Contains(string(got.body), field) {
			t.Errorf("%s: %s", body, got.body)
		}
	}
	if strings.Contains(h.log.String(), mcpKey) || strings.Contains(h.log.String(), secretValue) {
		t.Error("the log tells a secret")
	}
}

// A user who is not signed in to a server is told so. The state of a sign-in is
// valid in one browser only.
func TestMCPSignInOverREST(t *testing.T) {
	h := newHouse(t)
	made := h.want(h.call("POST", "/v1/mcp-servers", `{"name":"tickets","url":"`+tickets(t, mcpKey)+`"}`), 201)
	path := "/v1/mcp-servers/" + made.text(t, "id")
	if got := h.want(h.call("POST", path+"/test", ""), 200); got.text(t, "state") != "needs_auth" {
		t.Errorf("%s", got.body)
	}
	// This server does not support OAuth.
	h.want(h.call("POST", path+"/sign-in", ""), 503)
	h.want(h.call("DELETE", path+"/sign-in", ""), 204)
	for _, query := range []string{"", "state=1.x&code=y", "state=" + url.QueryEscape("1.\r\nSet-Cookie: a=b")} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.http.URL+controlmcp.CallbackPath+"?"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "aloft_mcp_visit", Value: "1.other"})
		resp, err := (&http.Transport{}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if to := resp.Header.Get("Location"); resp.StatusCode != 302 || to != "/settings?mcp=visit_unknown&mcp-server=#mcp-servers" {
			t.Errorf("%s: %d to %s", query, resp.StatusCode, to)
		}
	}
}

// The MCP servers of an agent or a run are stored encrypted, replace the
// previous servers, and are deleted with the agent.
func TestMCPServersOfAgents(t *testing.T) {
	h := newHouse(t)
	h.want(h.callAs(annsKey, "POST", "/v1/mcp-servers", `{"name":"team","command":"run-team","owner":"team"}`), 201)
	h.project = map[string][]byte{".cursor/mcp.json": []byte(`{"mcpServers":{"project":{"url":"https://${env:HOST}/mcp"},"missing":{"url":"https://${env:NOT_SET}/mcp"},"team":{"command":"evil"}}}`)}
	h.environment = environment.Environment{MCPServerAllowlist: []environment.MCPServer{
		{Command: "run-team"}, {ServerURL: "https://mcp.example.com/*"}, {ServerURL: "https://tickets.example.com/mcp"},
	}}
	made := h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"envVars":{"HOST":"mcp.example.com"},"mcpServers":[
		{"name":"tickets","url":"https://tickets.example.com/mcp","headers":{"X-Key":"`+mcpKey+`"}},
		{"name":"blocked","type":"http","url":"https://blocked.example.com/mcp"}]}`), 201)
	id := made.get(t, "agent").(map[string]any)["id"].(string)
	runID := made.get(t, "run").(map[string]any)["id"].(string)
	want := func(want ...string) {
		t.Helper()
		var got []string
		for _, item := range h.want(h.call("GET", "/v1/agents/"+id+"/mcp-servers", ""), 200).get(t, "items").([]any) {
			m := item.(map[string]any)
			got = append(got, m["name"].(string)+" "+m["source"].(string)+" "+m["state"].(string))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the agent has\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	want("team team unknown", "tickets agent unknown", "project project unknown", "missing project left_out", "blocked agent left_out", "team project left_out")
	// The journal lists the agent's servers, so that a restarted server knows
	// them.
	h.append(id, runID, &agent.Notice{Code: agent.CodeMCP, Text: mcp.Tell([]mcp.Listing{{Server: "team", State: mcp.Ready}, {Server: "tickets", State: mcp.NeedsAuth}})})
	h.append(id, runID, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"}}`), 201)
	want("team team ready", "tickets agent needs_auth", "project project unknown", "missing project left_out", "blocked agent left_out", "team project left_out")
	h.append(id, h.folded(id).Run.ID, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"},"mcpServers":[{"name":"other","type":"sse","url":"https://mcp.example.com/sse"}]}`, "Idempotency-Key", "k"), 201)
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"},"mcpServers":[{"name":"other","type":"sse","url":"https://mcp.example.com/sse"}]}`, "Idempotency-Key", "k"), 201)
	want("team team ready", "other agent unknown", "project project unknown", "missing project left_out", "team project left_out")
	h.append(id, h.folded(id).Run.ID, &agent.RunEnded{Status: agent.Finished})
	h.want(h.call("POST", "/v1/agents/"+id+"/runs", `{"prompt":{"text":"x"},"mcpServers":[]}`), 201)
	h.environment.DisableAllMCPServers = true
	want("missing project left_out", "team team left_out", "project project left_out", "team project left_out")
	for _, body := range []string{
		`[{"name":"a","command":"x"},{"name":"A","command":"y"}]`, `[{"name":"a"}]`, `[{"name":"a","url":"http://10.0.0.1/"}]`, `[{"name":"a","url":"https://a.test","command":"x"}]`,
	} {
		h.want(h.call("POST", "/v1/agents", `{"prompt":{"text":"x"},"mcpServers":`+body+`}`), 400)
	}
	kept, err := h.store.Secrets(t.Context(), secret.Owner{Kind: secret.OfMCPAgent, ID: id})
	if err != nil || len(kept) != 3 || strings.Contains(string(kept[0].Box), mcpKey) {
		t.Errorf("%d are kept, %v", len(kept), err)
	}
	h.want(h.call("DELETE", "/v1/agents/"+id, ""), 200)
	if kept, err := h.store.Secrets(t.Context(), secret.Owner{Kind: secret.OfMCPAgent, ID: id}); err != nil || len(kept) != 0 {
		t.Errorf("%d outlive the agent, %v", len(kept), err)
	}
}
