package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/cli"
)

// TestMCPCommands tests the requests and the output of the commands for MCP
// servers.
func TestMCPCommands(t *testing.T) {
	replies := map[string]string{
		"GET /v1/mcp-servers": `{"items":[{"id":"mcp-1","name":"tickets","owner":"team","type":"http","url":"https://mcp.example.com/mcp"},
			{"id":"mcp-2","name":"Tickets","owner":"personal","type":"stdio","command":"npx","args":["-y","x"],"signedIn":true},
			{"id":"mcp-3","name":"closed","owner":"personal","type":"sse","url":"https://x.test"},{"id":"mcp-4","name":"gone","owner":"personal","type":"http","url":"https://y.test"}]}`,
		"POST /v1/mcp-servers":                 `{"id":"mcp-5","name":"new","owner":"personal","type":"http","url":"https://a.test/mcp"}`,
		"DELETE /v1/mcp-servers/mcp-1":         `{"id":"mcp-1"}`,
		"DELETE /v1/mcp-servers/mcp-2":         `{"id":"mcp-2"}`,
		"POST /v1/mcp-servers/mcp-2/test":      `{"state":"ready","tools":[{"name":"show","description":"Show a\nticket."}],"tookMs":3}`,
		"POST /v1/mcp-servers/mcp-3/test":      `{"state":"needs_auth","tools":[],"error":{"code":"mcp_sign_in_needed","message":"x"},"tookMs":3}`,
		"POST /v1/mcp-servers/mcp-4/test":      `{"state":"failed","tools":[],"error":{"code":"mcp_failed","message":"nobody\u001b[31m answers"},"tookMs":3}`,
		"DELETE /v1/mcp-servers/mcp-2/sign-in": ``,
	}
	var asked, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked, body = r.Method+" "+r.URL.RequestURI(), string(data)
		_, _ = io.WriteString(w, replies[asked])
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers":{"files":{"command":"run","env":{"A":"b"}},"bad":{}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args  string
		exit  int
		asked string
		body  string
		says  string
	}{
		{"mcp list", cli.OK, "GET /v1/mcp-servers", "", "npx -y x"},
		{"mcp add new https://a.test/mcp --header X-Key=THE_KEY", cli.OK, "POST /v1/mcp-servers", `"url":"https://a.test/mcp","headers":{"X-Key":"key-value"}`, "Added new (personal, http)."},
		{"mcp add --team new https://a.test/mcp --client-id me --scope a,b", cli.OK, "POST /v1/mcp-servers", `"owner":"team"`, ""},
		{"mcp add new https://a.test/mcp --client-id me --scope a,b", cli.OK, "POST /v1/mcp-servers", `"auth":{"CLIENT_ID":"me","CLIENT_SECRET":"client-secret","scopes":["a","b"]}`, ""},
		{"mcp add new --env A=THE_KEY -- npx -y x", cli.OK, "POST /v1/mcp-servers", `"command":"npx","args":["-y","x"],"env":{"A":"key-value"}`, ""},
		{"mcp add --file " + file + " files", cli.OK, "POST /v1/mcp-servers", `"command":"run","env":{"A":"b"}`, ""},
		{"mcp add --file " + file + " bad", cli.Usage, "", "", "has no valid server bad"},
		{"mcp add new", cli.Usage, "", "", "missing a URL"},
		{"mcp add new npx x", cli.Usage, "", "", "give the command after --"},
		{"mcp add new https://a.test --header X-Key=NOT_SET", cli.Usage, "", "", "X-Key is not set"},
		{"mcp remove tickets", cli.OK, "DELETE /v1/mcp-servers/mcp-2", "", "Removed Tickets (personal)."},
		{"mcp remove --team tickets", cli.OK, "DELETE /v1/mcp-servers/mcp-1", "", ""},
		{"mcp remove nothing", cli.Usage, "GET /v1/mcp-servers", "", "no MCP server nothing"},
		{"mcp test tickets", cli.OK, "POST /v1/mcp-servers/mcp-2/test", "", "Show a ticket."},
		{"mcp test closed", cli.Failure, "POST /v1/mcp-servers/mcp-3/test", "", "aloft mcp login closed"},
		{"mcp test gone", cli.Failure, "POST /v1/mcp-servers/mcp-4/test", "", "answers"},
		{"mcp login closed", cli.OK, "GET /v1/mcp-servers", "", "/settings?sign-in=mcp-3#mcp-servers"},
		{"mcp logout tickets", cli.OK, "DELETE /v1/mcp-servers/mcp-2/sign-in", "", "Signed out"},
	} {
		asked, body = "", ""
		env := func(name string) string {
			return map[string]string{"ALOFT_URL": server.URL, "ALOFT_API_KEY": "aloft_test", "HOME": t.TempDir(), "THE_KEY": "key-value", "ALOFT_MCP_CLIENT_SECRET": "client-secret"}[name]
		}
		var out bytes.Buffer
		exit := run(t.Context(), strings.Fields(tt.args), env, strings.NewReader(""), &out, &out)
		if exit != tt.exit || asked != tt.asked || !strings.Contains(body, tt.body) || !strings.Contains(out.String(), tt.says) || strings.Contains(out.String(), "\x1b") {
			t.Errorf("%s: exit %d, asked %q with %q:\n%s", tt.args, exit, asked, body, out.String())
		}
	}
}
