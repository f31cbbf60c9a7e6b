package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/machinerpc"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"aloft/internal/control/pod"
	"aloft/internal/need"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// plane is a client of every service of pod.v1. It also accepts the streams
// that the machine opens.
type plane struct {
	podv1connect.ManagementServiceClient
	podv1connect.MetadataServiceClient
	conn *mux.Conn
}

func (m *aMachine) plane(token func(net.Conn)) *plane {
	m.t.Helper()
	return planeOf(m.t, m, token)
}

func planeOf(t *testing.T, m interface {
	Dial(ctx context.Context) (net.Conn, error)
}, token func(net.Conn)) *plane {
	t.Helper()
	raw, err := m.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := mux.Client(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		_ = conn.Serve(func(name string, stream net.Conn) {
			if name == mux.Token && token != nil {
				token(stream)
				return
			}
			_ = stream.Close()
		})
	}()
	client := machinerpc.NewClient(func(ctx context.Context) (net.Conn, error) { return conn.Open(ctx, mux.Pod) })
	p := &plane{
		podv1connect.NewManagementServiceClient(client, "http://pod"), podv1connect.NewMetadataServiceClient(client, "http://pod"), conn,
	}
	p.named(t, "") // the machine sends its requests to the peer that speaks pod.v1
	return p
}

func (p *plane) named(t *testing.T, name string) *podv1.Process {
	t.Helper()
	res, err := p.ListProcesses(t.Context(), connect.NewRequest(&podv1.ListProcessesRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Msg.GetProcesses() {
		if p.GetName() == name {
			return p
		}
	}
	return nil
}

func TestKeptProcesses(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	p := m.plane(nil)
	start := func(r *podv1.StartProcessRequest) (*podv1.Process, error) {
		res, err := p.StartProcess(t.Context(), connect.NewRequest(r))
		if err != nil {
			return nil, err
		}
		return res.Msg.GetProcess(), nil
	}
	web, err := start(&podv1.StartProcessRequest{Name: "web", Command: []string{"sh", "-c", `echo up as $(id -un) in $PWD with $GIVEN; (sleep 1000 & ); exec sleep 1000`}, Env: map[string]string{"GIVEN": "x"}})
	if err != nil || web.GetState() != podv1.Process_STATE_RUNNING || web.GetPid() == 0 || web.GetRestart() != podv1.Restart_RESTART_ON_FAILURE {
		t.Fatalf("%v, %v", web, err)
	}
	if _, err := start(&podv1.StartProcessRequest{Name: "web", Command: []string{"true"}}); connect.CodeOf(err) != connect.CodeAlreadyExists {
		t.Error(err)
	}
	logs := func(name string, follow bool) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		stream, err := p.ProcessLogs(ctx, connect.NewRequest(&podv1.ProcessLogsRequest{Name: name, Follow: follow}))
		if err != nil {
			t.Fatal(err)
		}
		var all strings.Builder
		for stream.Receive() {
			all.WriteString(stream.Msg().GetText())
		}
		if err := stream.Err(); err != nil {
			t.Error(err)
		}
		return all.String()
	}
	until(t, "its words are kept", func() error {
		if said := logs("web", false); said != "up as nobody in "+m.workspace()+" with x\n" {
			return fmt.Errorf("%q", said)
		}
		return nil
	})
	// After a signal has killed the process, it is restarted, and the processes that it has
	// left behind are gone.
	sh := m.shell(c)
	if _, err := p.SignalProcess(t.Context(), connect.NewRequest(&podv1.SignalProcessRequest{Name: "web", Signal: "SIGKILL"})); err != nil {
		t.Fatal(err)
	}
	until(t, "it runs again", func() error {
		now := p.named(t, "web")
		if now.GetRestarts() != 1 || now.GetState() != podv1.Process_STATE_RUNNING || now.GetLastExit().GetSignal() != 9 || now.GetLastExit().GetCode() != 137 {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	until(t, "two sleep", func() error {
		if n := sh.run("pgrep -xc sleep || true"); n != "2" {
			return errors.New(n)
		}
		return nil
	})
	// A process that exits successfully is not restarted, and its log stream
	// ends.
	if _, err := start(&podv1.StartProcessRequest{Name: "once", Command: []string{"sh", "-c", "echo a; echo b; printf c"}}); err != nil {
		t.Fatal(err)
	}
	if said := logs("once", true); said != "a\nb\nc" && said != "a\nb\nc\n" {
		t.Errorf("%q", said)
	}
	if once := p.named(t, "once"); once.GetState() != podv1.Process_STATE_ENDED || once.GetLastExit().GetCode() != 0 || once.GetPid() != 0 {
		t.Errorf("%v", once)
	}
	if never, err := start(&podv1.StartProcessRequest{Name: "once", Command: []string{"sh", "-c", "exit 4"}, Restart: podv1.Restart_RESTART_NEVER, AsRoot: true}); err != nil {
		t.Errorf("%v, %v", never, err)
	}
	until(t, "it has ended", func() error {
		if once := p.named(t, "once"); once.GetState() != podv1.Process_STATE_ENDED || once.GetLastExit().GetCode() != 4 {
			return fmt.Errorf("%v", once)
		}
		return nil
	})
	// The end of exec-daemon affects neither the process nor the processes that
	// it has left behind.
	before := p.named(t, "web").GetPid()
	execPID := p.named(t, "exec-daemon").GetPid()
	if _, err := p.SignalProcess(t.Context(), connect.NewRequest(&podv1.SignalProcessRequest{Name: "exec-daemon", Signal: "9"})); err != nil {
		t.Fatal(err)
	}
	until(t, "exec-daemon runs again", func() error {
		if now := p.named(t, "exec-daemon"); now.GetPid() == execPID || now.GetPid() == 0 {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	sh = m.shell(c)
	if n := sh.run("pgrep -xc sleep || true"); n != "2" || p.named(t, "web").GetPid() != before {
		t.Errorf("%s sleep; %v", n, p.named(t, "web"))
	}
	stats, err := p.Stats(t.Context(), connect.NewRequest(&podv1.StatsRequest{}))
	if err != nil || stats.Msg.GetProcesses()["web"].GetMemoryBytes() == 0 || stats.Msg.GetMachine().GetProcesses() < 4 || len(stats.Msg.GetDisks()) == 0 ||
		stats.Msg.GetDisks()[0].GetSizeBytes() == 0 || stats.Msg.GetMemoryLimitBytes() == 0 {
		t.Errorf("%v, %v", stats, err)
	}
	// After StopProcess, the process and all its children are gone, and it is
	// not restarted.
	if res, err := p.StopProcess(t.Context(), connect.NewRequest(&podv1.StopProcessRequest{Name: "web"})); err != nil || res.Msg.GetProcess().GetState() != podv1.Process_STATE_ENDED {
		t.Errorf("%v, %v", res, err)
	}
	until(t, "its processes have been reaped", func() error { // pgrep counts zombies
		if n := sh.run("pgrep -xc sleep || true"); n != "0" {
			return fmt.Errorf("%s sleep on", n)
		}
		return nil
	})
	for _, r := range []*podv1.StartProcessRequest{
		{Name: "a b", Command: []string{"true"}}, {Name: "exec-daemon", Command: []string{"true"}}, {Name: "x"},
		{Name: "x", Command: []string{"/no/such"}}, {Name: "x", Command: []string{"true"}, Directory: "rel"}, {Name: "x", Command: []string{"true"}, Env: map[string]string{"=": ""}},
	} {
		if _, err := start(r); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", r, err)
		}
	}
	if _, err := p.StopProcess(t.Context(), connect.NewRequest(&podv1.StopProcessRequest{Name: "none"})); connect.CodeOf(err) != connect.CodeNotFound {
		t.Error(err)
	}
}

// TestTerminalsOutliveExecDaemon checks that terminals and their background
// processes continue when exec-daemon dies.
func TestTerminalsOutliveExecDaemon(t *testing.T) {
	t.Parallel()
	need.Command(t, "tmux")
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	sh := m.shell(c)
	until(t, "tmux listens", func() error {
		if out := sh.run("tmux set-option -g default-shell /bin/sh \\; new-session -d -s work 'sleep 801 & echo $! > /dev/null; (setsid sleep 802 &); exec sleep 803' && echo made"); !strings.Contains(out, "made") && !strings.Contains(out, "duplicate") {
			return errors.New(out)
		}
		return nil
	})
	sh.run("(setsid sleep 901 >/dev/null 2>&1 &)")
	until(t, "all sleep", func() error {
		if n := sh.run("pgrep -fc '^sleep [89]0' || true"); n != "4" {
			return errors.New(n)
		}
		return nil
	})
	p := m.plane(nil)
	old := p.named(t, "exec-daemon").GetPid()
	if _, err := p.SignalProcess(t.Context(), connect.NewRequest(&podv1.SignalProcessRequest{Name: "exec-daemon", Signal: "SIGKILL"})); err != nil {
		t.Fatal(err)
	}
	until(t, "exec-daemon runs again", func() error {
		if now := p.named(t, "exec-daemon"); now.GetPid() == old || now.GetPid() == 0 {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	sh = m.shell(c)
	if got := sh.run("pgrep -fa '^sleep [89]0' | cut -d' ' -f2- | sort | tr '\\n' ,; tmux list-sessions -F '#{session_name}'"); got != "sleep 801,sleep 802,sleep 803,work" {
		t.Errorf("%q", got)
	}
	// If tmux itself is killed, it is restarted.
	terminals := p.named(t, "terminals").GetPid()
	sh.run("tmux kill-server")
	until(t, "tmux runs again", func() error {
		if now := p.named(t, "terminals"); now.GetPid() == terminals || now.GetPid() == 0 {
			return fmt.Errorf("%v", now)
		}
		return nil
	})
	until(t, "nothing of it is left", func() error {
		if got := sh.run("pgrep -fa '^sleep [89]0' || echo none"); got != "none" {
			return errors.New(got)
		}
		return nil
	})
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	p := m.plane(nil)
	set := func(values map[string]string) error {
		_, err := p.SetMetadata(t.Context(), connect.NewRequest(&podv1.SetMetadataRequest{Values: values}))
		return err
	}
	for _, bad := range []map[string]string{{"Agent": "x"}, {"a": "x", "a/b": "y"}, {"a//b": ""}, {"../a": ""}, {"a": "\x00"}, {"a": strings.Repeat("x", 20<<10)}} {
		if err := set(bad); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%.50v: %v", bad, err)
		}
	}
	if err := set(map[string]string{"agent/id": "bc-1", "agent/name": "Ann's ä", "owner/user-email": "a@b", "turn/model": "m"}); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(m.disk, "cursor/api.sock"))
	}}}
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://api"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for path, want := range map[string]string{
		"/v1/meta-data": "agent/\nowner/\nturn/\n", "/v1/meta-data/": "agent/\nowner/\nturn/\n", "/v1/meta-data/agent": "id\nname\n",
		"/v1/meta-data/agent/": "id\nname\n", "/v1/meta-data/agent/id": "bc-1", "/v1/meta-data/agent/name": "Ann's ä",
	} {
		if code, got := ask("GET", path, ""); code != 200 || got != want {
			t.Errorf("%s: %d %q", path, code, got)
		}
	}
	for _, path := range []string{"/v1/meta-data/none", "/v1/meta-data/agent/i", "/v1/other"} {
		if code, got := ask("GET", path, ""); code != 404 || !strings.Contains(got, "not_found") {
			t.Errorf("%s: %d %q", path, code, got)
		}
	}
	// The agent's user may request tokens, through the documented variable.
	sh := m.shell(c)
	if got := sh.run(`curl -s --unix-socket "$CURSOR_AGENT_SOCKET" http://x/v1/meta-data/turn/model`); got != "m" {
		t.Errorf("%q", got)
	}
	if code, got := ask("POST", "/v1/tokens/oidc", `{}`); code != 400 {
		t.Errorf("%d %q", code, got)
	}
	// First connect a control plane without tokens, then one with tokens.
	if code, got := ask("POST", "/v1/tokens/oidc", `{"aud":"https://x"}`); code != 503 || !strings.Contains(got, "try again") {
		t.Errorf("%d %q", code, got)
	}
	_ = p.conn.Close()
	streams := mux.NewListener()
	t.Cleanup(func() { _ = streams.Close() })
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"token":%q,"expires_at":"2030-01-02T03:04:05Z"}`, r.URL.Path+string(b))
	})}
	go func() { _ = server.Serve(streams) }()
	m.plane(func(stream net.Conn) { streams.Hand(stream) })
	code, got := ask("POST", "/v1/tokens/oidc", `{"aud":"https://x","nonce":"n"}`)
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(got), &token); err != nil || code != 200 || token.Token != `/v1/tokens/oidc{"aud":"https://x","nonce":"n"}` {
		t.Errorf("%d %q", code, got)
	}
}

// TestGRPC uses both ports with the client of grpc-go. Only the right
// credential may work.
func TestGRPC(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	// The ports are in the host's network, because the gRPC client runs there.
	free := freeAddrs(t, 5)
	git, exec0, manage, insidePort := free[0], free[1], free[2], free[3]
	m.more = []string{"--git-listen", git, "--exec-addr", exec0, "--manage-listen", manage, "--inside-listen", insidePort, "--pty-addr", free[4]}
	m.startOnHostNetwork()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(m.disk, "git", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	managing, within := read("management-token"), read("inside-token")
	if info, err := os.Stat(filepath.Join(m.disk, "git", "management-token")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	call := func(addr, token, method string, in, out any) error {
		t.Helper()
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		return conn.Invoke(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), method, in, out)
	}
	list := new(podv1.ListProcessesResponse)
	if err := call(manage, managing, "/pod.v1.ManagementService/ListProcesses", &podv1.ListProcessesRequest{}, list); err != nil ||
		!slices.ContainsFunc(list.GetProcesses(), func(p *podv1.Process) bool { return p.GetName() == "exec-daemon" }) {
		t.Errorf("%v, %v", list, err)
	}
	for _, wrong := range []string{"", within, strings.Repeat("f", 64)} {
		if err := call(manage, wrong, "/pod.v1.ManagementService/StopMachine", &podv1.StopMachineRequest{}, new(podv1.StopMachineResponse)); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%.8q: %v", wrong, err)
		}
	}
	if err := call(insidePort, within, "/pod.v1.ManagementService/ListProcesses", &podv1.ListProcessesRequest{}, list); status.Code(err) != codes.Unimplemented {
		t.Errorf("management at the port of the others: %v", err)
	}
	if err := m.plane(nil).setOne(t, "agent/id", "bc-7"); err != nil {
		t.Fatal(err)
	}
	values := new(podv1.GetMetadataResponse)
	if err := call(insidePort, within, "/pod.v1.InsideService/GetMetadata", &podv1.GetMetadataRequest{Path: "agent"}, values); err != nil || values.GetValues()["agent/id"] != "bc-7" {
		t.Errorf("%v, %v", values, err)
	}
	if err := call(insidePort, within, "/pod.v1.InsideService/RefreshToken", &podv1.RefreshTokenRequest{Audience: "x"}, new(podv1.RefreshTokenResponse)); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	// Upload an artifact as a stream.
	upload := func(name string, pieces ...string) error {
		t.Helper()
		conn, err := grpc.NewClient("passthrough:///"+insidePort, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+within),
			&grpc.StreamDesc{ClientStreams: true}, "/pod.v1.InsideService/UploadArtifact")
		if err != nil {
			return err
		}
		for i, piece := range pieces {
			r := &podv1.UploadArtifactRequest{Contents: []byte(piece)}
			if i == 0 {
				r.Name = name
			}
			if stream.SendMsg(r) != nil {
				break // the reply contains the error
			}
		}
		_ = stream.CloseSend()
		return stream.RecvMsg(new(podv1.UploadArtifactResponse))
	}
	if err := upload("shots/a/one.txt", "hello ", "world"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(m.disk, "artifacts/shots/a/one.txt")); err != nil || !bytes.Equal(b, []byte("hello world")) {
		t.Errorf("%q, %v", b, err)
	}
	// The upload runs as root. The agent must not be able to make it leave the
	// folder.
	sh := m.shell(c)
	sh.run("ln -s /etc " + m.disk + "/artifacts/out; ln -s /etc/passwd " + m.disk + "/artifacts/file")
	for _, name := range []string{"../x", "/etc/x", "out/x", "", "."} {
		if err := upload(name, "x"); status.Code(err) != codes.InvalidArgument && status.Code(err) != codes.Unknown {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := os.Stat("/etc/x"); err == nil {
		t.Error("it was led out")
	}
	if err := call(manage, managing, "/pod.v1.ManagementService/StopMachine", &podv1.StopMachineRequest{}, new(podv1.StopMachineResponse)); err != nil {
		t.Error(err)
	}
	select {
	case <-m.done:
	case <-time.After(2 * time.Minute):
		t.Error("it does not stop")
	}
}

func (p *plane) setOne(t *testing.T, path, value string) error {
	t.Helper()
	_, err := p.SetMetadata(t.Context(), connect.NewRequest(&podv1.SetMetadataRequest{Values: map[string]string{path: value}}))
	return err
}

// freeAddrs returns different addresses on which nothing listens.
func freeAddrs(t *testing.T, n int) (all []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		all = append(all, l.Addr().String())
	}
	return all
}
