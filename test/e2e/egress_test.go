package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// connections returns the agent's network log: the connections that its machine
// has made, and those that were refused.
func (a *aloft) connections(agentID string) policy.Connections {
	a.t.Helper()
	var all policy.Connections
	a.get("/v1/agents/"+agentID+"/connections?limit=4096", &all)
	return all
}

// shellScript returns a script that runs a command and then ends.
func shellScript(command string) string {
	quoted, err := json.Marshal(command)
	if err != nil {
		panic(err)
	}
	return "\nscripts:\n  - turns:\n      - text: I do it.\n        calls:\n          - {tool: Shell, args: {timeout: 300000, command: " +
		string(quoted) + "}}\n      - text: Done.\n"
}

// TestPolicyInAMachine uses an allow list of domains, a program that tries to
// bypass it, and WebFetch, to which the allow list applies too.
func TestPolicyInAMachine(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "web of %s", r.Host) }))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	command := strings.ReplaceAll(`
curl -sS -m 20 http://host.aloft.internal:PORT/ 2>&1 | sed s/^/allowed:/
curl -sS -m 20 -H 'Host: evil.test' http://host.aloft.internal:PORT/ 2>&1 | grep -c -i 'reset\|empty' | sed s/^/hidden:/
curl -sS -m 20 http://www.debian.org/ 2>&1 | grep -c 'resolve' | sed s/^/name:/
curl -sS -m 20 http://192.0.2.7/ 2>&1 | grep -c -i 'connect' | sed s/^/raw:/
curl -sS -m 20 http://169.254.169.254/latest/meta-data 2>&1 | grep -c -i 'connect' | sed s/^/metadata:/
`, "PORT", port)
	fetching := strings.Replace(shellScript(command), "        calls:\n", "        calls:\n          - {tool: WebFetch, args: {url: \"http://9.9.9.9/\"}}\n", 1)
	a := start(t, scripted(t, fetching)+`
machine:
  egress:
    mode: list
    allow: [host.aloft.internal]
    open: [127.0.0.1/32]
`)
	r := a.finish(a.create("", "Go around the policy", nil))
	events := a.events(r.AgentID)
	for _, want := range []string{"allowed:web of host.aloft.internal:" + port, "hidden:1", "name:1", "raw:1", "metadata:1"} {
		if !strings.Contains(events, want) {
			t.Errorf("nothing in the run says %q\n%s", want, events)
		}
	}
	for _, want := range []string{"9.9.9.9:80: false mode list", "dns www.debian.org : false mode list", "192.0.2.7:80: false mode list", "169.254.169.254:80: false always blocked", "HTTP names evil.test"} {
		eventually(t, "a connection is "+want, func() bool {
			return slices.ContainsFunc(a.connections(r.AgentID).Ended, func(c policy.Connection) bool {
				return strings.Contains(fmt.Sprintf("%s %s %s: %v %s", c.Network, c.Domain, c.Address, c.Allowed, c.Rule), want)
			})
		})
	}

	// The team's settings restrict only the machines of agents that are created
	// afterwards.
	if status, reply := a.do("PATCH", "/v1/settings", object{"networkMode": policy.EnvironmentSettingsOnly, "networkAllowlist": []string{"other.example"}}); status != 200 {
		t.Fatalf("%d %s", status, reply)
	}
	a.output("agent", "follow-up", r.AgentID, "Again")
	if n := strings.Count(a.events(r.AgentID), "allowed:web of"); n < 2*strings.Count(events, "allowed:web of") {
		t.Errorf("an agent from before is narrowed: %d\n%s", n, a.events(r.AgentID))
	}
	late := a.events(a.finish(a.create("", "Go around the policy", nil)).AgentID)
	if strings.Contains(late, "allowed:web of") || !strings.Contains(late, "name:1") {
		t.Errorf("an agent that was made since is not narrowed:\n%s", late)
	}
}

// TestForward connects to a program in a machine, by port name and by port
// number, even while the server is killed and restarted.
func TestForward(t *testing.T) {
	t.Parallel()
	need.Command(t, "node")
	const program = `require('http').createServer((q, s) => { let n = 0; q.on('data', d => n += d.length); q.on('end', () => s.end('inside heard ' + n)) }).listen(3000, '127.0.0.1')`
	a := start(t, scripted(t, shellScript("setsid node -e \""+program+"\" </dev/null >/tmp/log 2>&1 & until curl -fsS http://127.0.0.1:3000/; do sleep 0.1; done")))
	url := gittest.New(t).Repo("served", map[string]string{".aloft/environment.json": `{"ports": [{"port": 3000, "name": "web"}]}`})
	r := a.finish(a.create(url, "Serve something", nil))
	forward := func(ctx context.Context, port string) string {
		cmd := exec.CommandContext(ctx, binary(t), "agent", "forward", r.AgentID, port)
		cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() })
		lines := bufio.NewReader(out)
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, lines) }()
		at, _, _ := strings.Cut(line, " ")
		return at
	}
	post := func(at string) string {
		resp, err := http.Post("http://"+at, "application/octet-stream", strings.NewReader(strings.Repeat("x", 3<<20)))
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got := post(forward(ctx, "web:0")); got != "inside heard 3145728" {
		t.Errorf("the program says %q", got)
	}
	cancel()
	a.Kill()
	a.Start()
	if got := post(forward(t.Context(), "3000:0")); got != "inside heard 3145728" {
		t.Errorf("after the server was killed the program says %q", got)
	}
	if status, body := a.do("GET", "/v1/agents/"+r.AgentID+"/ports/3000", nil); status != http.StatusBadRequest {
		t.Errorf("without WebSocket: %d %s", status, body)
	}
}
