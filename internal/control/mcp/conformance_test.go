package mcp

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/need"
)

// The public conformance suite of MCP is installed with hack/package.json.
const suite = "../../../hack/node_modules/@modelcontextprotocol/conformance/dist/index.js"

// conforming are the scenarios of the suite for clients that apply to Aloft. The
// others are about what Aloft refuses, or does not offer to servers:
//
//   - elicitation-sep1034-client-defaults: agents answer no questions of servers,
//     and the client says so when it connects.
//   - auth/basic-cimd: Aloft registers a client at the provider. A client id that
//     is a URL works only for a server with a public address.
//   - auth/2025-03-26-oauth-metadata-backcompat: its provider's issuer is another
//     address than the one with the metadata, which RFC 8414 tells clients to
//     refuse.
//   - auth/pre-registration, auth/client-credentials-*, auth/cross-app-access-*:
//     the suite passes credentials to the client; TestSignInAsAClient does so too.
//     Users sign in themselves, so there are no credentials of a client alone.
//   - drafts of the specification.
var conforming = []string{
	"initialize", "tools_call", "sse-retry",
	"auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3", "auth/2025-03-26-oauth-endpoint-fallback",
	"auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined", "auth/scope-step-up", "auth/scope-retry-limit",
	"auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none",
}

// suiteServer is the variable that makes [TestConformanceClient] act.
const suiteServer = "ALOFT_TEST_CONFORMANCE_CLIENT"

// TestConformance runs the scenarios of the suite for clients: each starts a
// server, has TestConformanceClient use it in a process of its own, and checks
// what the server has seen.
func TestConformance(t *testing.T) {
	// The suite needs Node 22, which the system may lack.
	node := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	node = filepath.Join("../../../hack/node_modules", "node-linux-"+node, "bin/node")
	need.File(t, "the conformance suite of MCP", node)
	need.File(t, "the conformance suite of MCP", suite)
	script := suite
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []*string{&node, &script} {
		if *path, err = filepath.Abs(*path); err != nil {
			t.Fatal(err)
		}
	}
	for _, scenario := range conforming {
		t.Run(scenario, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), node, script, "client", "--scenario", scenario, "--timeout", "60000",
				"--command", self+" -test.run=^TestConformanceClient$ -test.timeout=50s")
			cmd.Env, cmd.Dir = append(os.Environ(), suiteServer+"=1"), t.TempDir()
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestConformanceClient is the client of a scenario: it lists the server's tools
// and calls each of them, as an agent would, and signs in when it has to. Without
// the suite it does nothing.
func TestConformanceClient(t *testing.T) {
	if os.Getenv(suiteServer) == "" {
		return
	}
	server := mcp.Server{Name: "suite", Type: mcp.HTTP, URL: os.Args[len(os.Args)-1], Source: mcp.User}
	s := newServers(t)
	p := s.Party(ada.ID, "", nil)
	defer p.Close()
	l := p.List(t.Context(), server)
	for try := 0; l.State == mcp.NeedsAuth && try < 3; try++ {
		enter(t, s, server)
		l = p.List(t.Context(), server)
	}
	if l.State != mcp.Ready {
		t.Fatalf("%+v", l)
	}
	for _, tool := range l.Tools {
		args := json.RawMessage(`{}`)
		if strings.Contains(string(tool.Schema), `"a"`) {
			args = json.RawMessage(`{"a": 5, "b": 3}`)
		}
		_, err := p.Call(t.Context(), server, tool.Name, args)
		for try := 0; fault.Of(err).Code == CodeSignIn && try < 3; try++ {
			enter(t, s, server)
			_, err = p.Call(t.Context(), server, tool.Name, args)
		}
		if err != nil {
			t.Errorf("%s: %v", tool.Name, err)
		}
	}
}

// enter signs in at the suite's provider, which lets everybody in.
func enter(t *testing.T, s *Servers, server mcp.Server) {
	t.Helper()
	address, state, err := s.BeginSignIn(t.Context(), nil, server, ada, ReturnTo{Server: server.Name})
	if err != nil {
		t.Fatal(err)
	}
	browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	page, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = page.Body.Close()
	to, err := url.Parse(page.Header.Get("Location"))
	if err != nil || page.StatusCode != http.StatusFound {
		t.Fatalf("the provider answers %s, %v", page.Status, err)
	}
	back := to.Query()
	if _, _, err := s.EndSignIn(t.Context(), back.Get("state"), state, back.Get("code"), back.Get("iss")); err != nil {
		t.Fatal(err)
	}
}
