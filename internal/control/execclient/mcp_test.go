package execclient

import (
	"context"
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/mcp"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

type mcpServer func(*agentv1.UseServersRequest) (string, error)

func (m mcpServer) UseServers(_ context.Context, req *connect.Request[agentv1.UseServersRequest]) (*connect.Response[agentv1.UseServersResponse], error) {
	text, err := m(req.Msg)
	return connect.NewResponse(&agentv1.UseServersResponse{Listings: []byte(text)}), err
}

// The client does not send credentials of remote servers to a machine. It
// compares the machine's report with the servers that it asked the machine to
// run.
func TestUseServers(t *testing.T) {
	servers := []mcp.Server{
		{Name: "remote", Type: mcp.HTTP, URL: "https://mcp.example.com/mcp", Headers: map[string]string{"X-Key": "key-of-the-remote-one"}},
		{Name: "near", Type: mcp.Stdio, Command: "near", Tools: []string{"show*"}}, {Name: "dead", Type: mcp.Stdio, Command: "dead"},
		{Name: "silent", Type: mcp.Stdio, Command: "silent"}, {Name: "slow", Type: mcp.Stdio, Command: "slow"}, {Name: "odd", Type: mcp.Stdio, Command: "odd"},
	}
	said := `[{"server":"remote","state":"ready","tools":[{"name":"push"}]},{"server":"other","state":"ready"},
		{"server":"near","state":"ready","instructions":"a\u001b\u202eb","tools":[{"name":"show"},{"name":"Shell"},{"name":"show:all"},{"name":"show"}]},
		{"server":"near","state":"failed"},{"server":"dead","state":"failed","error":"it ended\u001b[2J` + strings.Repeat("x", 5000) + `"},
		{"server":"slow","state":"starting","tools":[{"name":"early"}]},{"server":"odd","state":"needs_auth","error":"sign in at https://evil.example.com"}]`
	var asked *agentv1.UseServersRequest
	answer := func() (string, error) { return said, nil }
	path, h := agentv1connect.NewMcpServiceHandler(mcpServer(func(req *agentv1.UseServersRequest) (string, error) {
		asked = req
		return answer()
	}))
	lost := errors.New("the machine is lost")
	m := NewMCP(testConn{dial: execDaemon(t, path, h), lost: func(err error) error { return errors.Join(lost, err) }}, "token")
	t.Cleanup(m.Close)
	all, err := m.Use(t.Context(), servers, &sandbox.Policy{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(asked.GetServers()); strings.Contains(text, "remote") || strings.Contains(text, "key-of") || !strings.Contains(text, `"command":"near"`) || asked.GetSandboxPolicy() == nil {
		t.Errorf("the machine is told %s", text)
	}
	var got []string
	for _, l := range all {
		line := l.Server + " " + string(l.State)
		for _, tool := range l.Tools {
			line += " " + tool.Name
		}
		got = append(got, line)
		if strings.ContainsAny(l.Instructions+l.Error, "\x1b\u202e") || len(l.Error) > maxServerWhy+10 {
			t.Errorf("%s says %q, %q", l.Server, l.Instructions, l.Error)
		}
	}
	if want := "near ready show; dead failed; silent failed; slow starting; odd failed"; strings.Join(got, "; ") != want {
		t.Errorf("%s, want %s", strings.Join(got, "; "), want)
	}
	if len(servers) != 6 || servers[0].Name != "remote" {
		t.Error("the caller's list is another now")
	}
	for name, text := range map[string]string{"NoJSON": "{", "NoList": `{"server":"near"}`, "Numbers": `[1]`} {
		said = text
		if all, err := m.Use(t.Context(), servers, nil, 0); err == nil || len(all) != 0 {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	answer = func() (string, error) { return "", connect.NewError(connect.CodeUnavailable, errors.New("gone")) }
	if _, err := m.Use(t.Context(), servers, nil, 0); !errors.Is(err, lost) {
		t.Errorf("a machine that is lost: %v", err)
	}
}
