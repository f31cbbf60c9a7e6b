package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/machinerpc"

	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/control/execclient"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
)

var update = flag.Bool("update", false, "write what is generated")

const referencePage = "../../docs/reference/machine.md"

// nobody marks a well-known port on which no program of the machine listens.
const nobody = "nobody"

// ports are the ports of a machine. All are on loopback and can be reached from
// outside only through the control plane.
var ports = []struct {
	port       uint16
	by, serves string
	later      string // what starts the listener; "" if it always listens
}{
	{2375, "dockerd", "the Docker Engine's API, in addition to its socket ([guide](../guide/docker.md))", "`dockerd -H tcp://127.0.0.1:2375`, which an agent may start"},
	{5901, "Xtigervnc", "VNC: [the desktop](../guide/take-over.md#the-desktop), if the image has Xtigervnc; it starts on first use", ""},
	{26053, "exec-daemon", "`agent.v1`: Connect, gRPC and gRPC-Web", ""},
	{26054, "exec-daemon", "[PTYs over WebSockets](pty.md)", ""},
	{26058, nobody, "the usual port of noVNC: the dashboard contains its own, and VNC uses the machine's connection to the control plane", ""},
	{26497, "pod-daemon", "embeddings for exec-daemon's code search (HTTP, as OpenAI's `/v1/embeddings`)", "`embedding_model` in the server's [configuration](config.md)"},
	{26498, "pod-daemon", "exec-daemon's traces, metrics and logs (OTLP over gRPC)", "`telemetry` in the server's [configuration](config.md), without ghost mode"},
	{26499, "pod-daemon", "git access to the gateway (HTTP)", ""},
	{26500, "pod-daemon", "`pod.v1.ManagementService`, for root: the token is in `/run/aloft-git/management-token`", ""},
	{26501, "pod-daemon", "the proxy of Docker ([guide](../guide/docker.md#private-images)), for root: the password is in `/run/aloft-git/docker.env`", "`images.credentials[].machines` in the server's [configuration](config.md)"},
	{50052, "pod-daemon", "`pod.v1.InsideService`, for the agent's user: `ALOFT_INSIDE_TOKEN_FILE` names the file of the token", ""},
}

// rpcRow describes an RPC, and gives a request and the code of its response (""
// for success). Requests that a new machine cannot fulfil yet return an error
// code.
type rpcRow struct{ does, request, code string }

var rpcs = map[string]rpcRow{
	"agent.v1.ControlService/Ping":                       {"checks that exec-daemon is running", `{}`, ""},
	"agent.v1.ControlService/Exec":                       {"runs one tool call, and streams its output and its result", `{"callId":"c1","toolCall":{"shellToolCall":{"args":{"command":"true"}}}}`, ""},
	"agent.v1.ControlService/ListDirectory":              {"lists a folder", `{"path":"/"}`, ""},
	"agent.v1.ControlService/ReadTextFile":               {"reads a text file, or part of it", `{"path":"/etc/hostname"}`, ""},
	"agent.v1.ControlService/WriteTextFile":              {"writes a text file atomically", `{"path":"WORKSPACE/a.txt","contents":"a"}`, ""},
	"agent.v1.ControlService/ReadBinaryFile":             {"reads any file, or part of it", `{"path":"/etc/hostname"}`, ""},
	"agent.v1.ControlService/WriteBinaryFile":            {"writes any file atomically", `{"path":"WORKSPACE/a.bin","contents":"AAE="}`, ""},
	"agent.v1.ControlService/GetDiff":                    {"the diff of the workspace from a commit", `{}`, ""},
	"agent.v1.ControlService/GetWorkspaceChangesHash":    {"a hash that changes when that diff does", `{}`, ""},
	"agent.v1.ControlService/RefreshGithubAccessToken":   {"replaces the credential with which git reaches the gateway", `{"accessToken":"t0ken-of-this-run","gatewayUrl":"http://127.0.0.1:26499"}`, ""},
	"agent.v1.ControlService/WarmRemoteAccessServer":     {"starts the editor server of the image; `not_found` if there is none, with what to install", `{}`, "not_found"},
	"agent.v1.ControlService/DownloadCursorServer":       {"finds that server; downloads nothing, so it is `not_found` if there is none", `{}`, "not_found"},
	"agent.v1.ControlService/ListArtifacts":              {"lists the [artifacts](artifacts.md)", `{}`, ""},
	"agent.v1.ControlService/UploadArtifacts":            {"returns their contents in pieces", `{}`, ""},
	"agent.v1.ControlService/GetMcpRefreshTokens":        {"always empty: the control plane signs in to MCP servers, and tokens enter no machine", `{}`, ""},
	"agent.v1.ControlService/UpdateEnvironmentVariables": {"changes the variables of processes started from now on", `{"set":{"SET_BY_RPC":"1"}}`, ""},
	"agent.v1.ExecService/ExecStream":                    {"any number of tool calls on one stream; see [exec-daemon](exec-daemon.md)", `{"execClientControlMessage":{"heartbeat":{"sequence":"1"}}}`, ""},
	"agent.v1.FileService/ReadFile":                      {"streams a file of any length", `{"path":"/etc/hostname"}`, ""},
	"agent.v1.FileService/WriteFile":                     {"writes a file of any length from a stream", `{"path":"WORKSPACE/b.txt"}`, ""},
	"agent.v1.FileService/ReadFolder":                    {"streams a folder as a tar file", `{"path":"WORKSPACE"}`, ""},
	"agent.v1.FileService/MakeFolder":                    {"makes a folder", `{"path":"WORKSPACE/new"}`, ""},
	"agent.v1.FileService/MoveFile":                      {"moves a file or a folder to a path that does not exist yet", `{"from":"WORKSPACE/new","to":"WORKSPACE/moved"}`, ""},
	"agent.v1.FileService/RemoveFile":                    {"removes a file or a folder", `{"path":"WORKSPACE/moved"}`, ""},
	"agent.v1.TerminalService/ListTerminals":             {"lists the terminals that people and the agent share", `{}`, ""},
	"agent.v1.TerminalService/CreateTerminal":            {"creates one, or returns the existing one with that name", `{"name":"t1"}`, ""},
	"agent.v1.TerminalService/AttachTerminal":            {"returns how to attach to one over a PTY", `{"name":"t1"}`, ""},
	"agent.v1.TerminalService/ReadTerminal":              {"returns the contents of its screen", `{"name":"t1"}`, ""},
	"agent.v1.TerminalService/SendTerminalKeys":          {"sends keys to it", `{"name":"t1","keys":[{"text":"a"}]}`, ""},
	"agent.v1.TerminalService/CloseTerminal":             {"closes one", `{"name":"t1"}`, ""},
	"pod.v1.ManagementService/ListProcesses":             {"lists the processes that pod-daemon supervises", `{}`, ""},
	"pod.v1.ManagementService/StartProcess":              {"starts one with a name, and keeps it running", `{"name":"p1","command":["sleep","1000"]}`, ""},
	"pod.v1.ManagementService/SignalProcess":             {"sends a signal to one", `{"name":"p1","signal":"SIGCONT"}`, ""},
	"pod.v1.ManagementService/ProcessLogs":               {"streams the output of one", `{"name":"p1"}`, ""},
	"pod.v1.ManagementService/StopProcess":               {"stops one with all its descendants", `{"name":"p1","graceMs":"100"}`, ""},
	"pod.v1.ManagementService/Stats":                     {"CPU, memory, disks and out-of-memory kills", `{}`, ""},
	"pod.v1.ManagementService/StopMachine":               {"stops every process, and the machine", `{}`, ""},
	"pod.v1.InsideService/GetMetadata":                   {"metadata about the agent, by path", `{}`, ""},
	"pod.v1.InsideService/RefreshToken":                  {"a [token](identity.md) that identifies the machine's agent; `unavailable` while no server is connected", `{"audience":"a"}`, "unavailable"},
	"pod.v1.InsideService/UploadArtifact":                {"stores a file as an artifact", `{"name":"a.txt","contents":"YQ=="}`, ""},
	"pod.v1.MetadataService/SetMetadata":                 {"sets the metadata about the agent", `{"values":{"agent/id":"bc-1"}}`, ""},
	"pod.v1.PodService/Boot":                             {"boots the machine in named steps", `{}`, "invalid_argument"},
	"pod.v1.PodService/Status":                           {"returns the state of the machine", `{}`, ""},
	"pod.v1.PodService/SetGitCredential":                 {"replaces git's credential", `{"credential":"another"}`, ""},
	"pod.v1.PodService/Commit":                           {"commits the changes in the workspace", `{"message":"m"}`, ""},
	"pod.v1.PodService/RunCommand":                       {"runs a command in the workspace as the agent's user, and streams its output", `{"command":"true"}`, ""},
	"pod.v1.PodService/Push":                             {"pushes the branch through the gateway; the reply says why if that fails", `{"branch":"b"}`, ""},
	"pod.v1.PodService/Diff":                             {"the diff of the workspace, for the server", `{}`, ""},
	"pod.v1.PodService/ListPorts":                        {"lists the ports on which programs listen", `{}`, ""},
	"pod.v1.PodService/Quiesce":                          {"closes every connection, so that the machine can be saved with its memory", `{}`, ""},
	"pod.v1.PodService/Shutdown":                         {"stops every process, and the machine", `{}`, ""},
}

// services are the files of the two packages, whose services the page lists in
// this order. servedAt is the address of each service.
var (
	services = []protoreflect.FileDescriptor{
		agentv1.File_agent_v1_control_service_proto, agentv1.File_agent_v1_exec_service_proto, agentv1.File_agent_v1_file_service_proto, agentv1.File_agent_v1_terminal_service_proto,
		podv1.File_pod_v1_inside_service_proto, podv1.File_pod_v1_metadata_service_proto, podv1.File_pod_v1_pod_service_proto, podv1.File_pod_v1_management_service_proto,
	}
	servedAt = map[string]string{
		"agent.v1.ControlService": "port 26053", "agent.v1.ExecService": "port 26053", "agent.v1.FileService": "port 26053", "agent.v1.TerminalService": "port 26053",
		"pod.v1.InsideService": "port 50052", "pod.v1.ManagementService": "port 26500, and to the control plane",
		"pod.v1.MetadataService": "to the control plane", "pod.v1.PodService": "to the control plane",
	}
)

// variables are the environment variables of an agent's commands. The value "*"
// matches any value. If a later step sets a variable, it must not exist yet.
var variables = []struct{ name, value, means, later string }{
	{"CURSOR_AGENT", "1", "this is an agent's machine", ""},
	{"DISPLAY", ":1", "the desktop, which starts when a program connects to it; set, like the desktop's other variables, if the image has Xtigervnc", ""},
	{"FORCE_COLOR", "0", "no color in the output of tools", ""},
	{"NO_COLOR", "1", "the same, for other programs", ""},
	{"HOME", "*", "the user's home, `/home/ubuntu` in images that have that user", ""},
	{"HOSTNAME", "cursor", "the machine's name", ""},
	{"NVM_DIR", "", "`~/.nvm`, if the image has it", ""},
	{"VNC_DPI", "96", "the desktop's dots per inch", ""},
	{"VNC_RESOLUTION", "1920x1200x24", "the desktop's width, height and bits per pixel", ""},
	{"GDK_SCALE", "1", "the scale of graphical programs, also as `QT_SCALE_FACTOR`", ""},
	{"LIBGL_ALWAYS_SOFTWARE", "1", "graphical programs render in software, also as `GALLIUM_DRIVER=llvmpipe`", ""},
	{"DBUS_SESSION_BUS_ADDRESS", "", "D-Bus, which starts when a program connects to it; set if the image has dbus-daemon", ""},
	{"GIT_LFS_SKIP_SMUDGE", "1", "Git LFS downloads files only when asked to", ""},
	{"GIT_DISCOVERY_ACROSS_FILESYSTEM", "0", "git does not search for repositories across file systems", ""},
	{"CURSOR_AGENT_SOCKET", "*", "the socket of [metadata and tokens](identity.md), `/run/cursor/api.sock`", ""},
	{"CURSOR_AGENT_INJECTED_SECRET_NAMES", "", "names of the variables whose values are redacted, also as `CLOUD_AGENT_INJECTED_SECRET_NAMES`; set if there are any", ""},
	{"ALOFT_INSIDE_TOKEN_FILE", "*", "the file that holds the token of port 50052", ""},
	{"PATH", "*", "the image's, then the user's and the usual folders", ""},
	{"LANG", "*", "the image's, or `C.UTF-8`", ""},
	{"TERM", "*", "the image's, or `xterm-256color`; `dumb` if a tool runs the command", ""},
	{"USER", "*", "the user", ""},
	{"LOGNAME", "*", "the same", ""},
	{"SHELL", "*", "the user's shell", ""},
	{"SSL_CERT_FILE", "", "the authorities that TLS trusts, if the image has `/etc/ssl/certs/ca-certificates.crt`; also `NODE_EXTRA_CA_CERTS` and `REQUESTS_CA_BUNDLE`", ""},
}

func reference() string {
	var b strings.Builder
	b.WriteString(`# Inside a machine

The ports, RPCs and variables that programs in a machine can use. This page is generated from tables in
` + "`cmd/pod-daemon/reference_test.go`" + `, each row of which is checked against running daemons:
` + "`go test ./cmd/pod-daemon -run Reference -update`" + `. The [flags of exec-daemon](exec-daemon.md) and the [tools](tools.md) have pages of their own.

## Ports

All are on 127.0.0.1. Those of exec-daemon and pod-daemon require a token, ` + "`Authorization: Bearer …`" + `, except git's, which requires
the run's credential.

| port | by | serves |
|---|---|---|
`)
	for _, p := range ports {
		fmt.Fprintf(&b, "| %d | %s | %s%s |\n", p.port, p.by, p.serves, laterWords(p.later))
	}
	b.WriteString("\n## RPCs\n")
	for _, file := range services {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			fmt.Fprintf(&b, "\n### %s\n\nServed on %s.\n\n| RPC | kind | what it does |\n|---|---|---|\n", s.FullName(), strings.TrimPrefix(strings.ReplaceAll("on "+servedAt[string(s.FullName())], "on to", "the connection to"), "on "))
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", m.Name(), kindOf(m), rpcs[procedure(m)].does)
			}
		}
	}
	b.WriteString("\n## Variables\n\n| variable | value | meaning |\n|---|---|---|\n")
	for _, v := range variables {
		value := ""
		if v.value != "" && v.value != "*" {
			value = "`" + v.value + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s%s |\n", v.name, value, v.means, laterWords(v.later))
	}
	return b.String()
}

func laterWords(what string) string {
	if what == "" {
		return ""
	}
	return ". **Not there yet**: it comes with " + what
}

func procedure(m protoreflect.MethodDescriptor) string {
	return string(m.Parent().FullName()) + "/" + string(m.Name())
}

func kindOf(m protoreflect.MethodDescriptor) string {
	switch {
	case m.IsStreamingClient() && m.IsStreamingServer():
		return "both stream"
	case m.IsStreamingClient():
		return "the client streams"
	case m.IsStreamingServer():
		return "the server streams"
	}
	return "unary"
}

// TestReference checks that the page is generated from the tables, and that the
// tables contain every RPC.
func TestReference(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range services {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			for j := range s.Methods().Len() {
				name := procedure(s.Methods().Get(j))
				if seen[name] = true; rpcs[name].does == "" || servedAt[string(s.FullName())] == "" {
					t.Errorf("%s: no row says what it does, or where", name)
				}
			}
		}
	}
	for name := range rpcs {
		if !seen[name] {
			t.Errorf("%s: there is a row, and no such RPC", name)
		}
	}
	if *update {
		if err := os.WriteFile(referencePage, []byte(reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(referencePage)
	if err != nil || string(old) != reference() {
		t.Errorf("%s is not what the tables say (%v): run `make generate`", referencePage, err)
	}
}

// TestReferenceOfRunningDaemons compares each row with running daemons.
func TestReferenceOfRunningDaemons(t *testing.T) {
	t.Parallel()
	need.Command(t, "tmux")
	need.Command(t, "Xtigervnc")
	m, f := newMachine(t), newForge(t)
	dir := filepath.Join(m.disk, "bin")
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "exec-daemon"), "aloft/cmd/exec-daemon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Use a user that has a shell on the host. The user nobody has none, so its
	// terminals would end immediately.
	m.more = []string{"--exec-daemon", filepath.Join(dir, "exec-daemon"), "--user", "root"}
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Branch: "b"})
	p := m.plane(nil)
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(m.disk, "git", name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	d := &daemons{t: t, m: m, plane: p.conn, tokens: map[string]string{
		mux.Port(26053): token, mux.Port(26500): read("management-token"), mux.Port(50052): read("inside-token"),
	}}
	for _, port := range ports {
		err := d.answers(port.port)
		if (err == nil) != (port.later == "" && port.by != nobody) {
			t.Errorf("port %d: %v", port.port, err)
		}
	}
	d.environment(c)
	for stream := range d.tokens {
		if code := d.call(stream, "", "agent.v1.ControlService/Ping", `{}`, false); code != "unauthenticated" {
			t.Errorf("%s answers somebody without its token: %q", stream, code)
		}
	}
	for _, file := range services {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			stream := map[string]string{"port 26053": mux.Port(26053), "port 50052": mux.Port(50052), "to the control plane": mux.Pod,
				"port 26500, and to the control plane": mux.Port(26500)}[servedAt[string(s.FullName())]]
			for _, method := range inOrder(s) {
				name := procedure(method)
				if strings.HasSuffix(name, "/Shutdown") || strings.HasSuffix(name, "/StopMachine") || strings.HasSuffix(name, "/Quiesce") {
					continue // these end the machine or its connections, so no reply could arrive
				}
				row := rpcs[name]
				request := strings.ReplaceAll(row.request, "WORKSPACE", m.workspace())
				if code := d.call(stream, d.tokens[stream], name, request, method.IsStreamingClient() || method.IsStreamingServer()); code != row.code {
					t.Errorf("%s answers %s with %q, want %q", name, request, code, row.code)
				}
			}
		}
	}
	if code := d.call(mux.Pod, "", "pod.v1.PodService/Shutdown", `{}`, false); code != "" && code != "cut" {
		t.Errorf("Shutdown: %q", code)
	}
	select {
	case <-m.done:
	case <-time.After(2 * time.Minute):
		t.Error("the machine is up after Shutdown")
	}
}

// inOrder returns a service's methods. Methods that need objects created by
// other methods come last.
func inOrder(s protoreflect.ServiceDescriptor) (list []protoreflect.MethodDescriptor) {
	var ends []protoreflect.MethodDescriptor
	for i := range s.Methods().Len() {
		m := s.Methods().Get(i)
		if strings.HasPrefix(string(m.Name()), "Stop") || strings.HasPrefix(string(m.Name()), "Close") {
			ends = append(ends, m)
			continue
		}
		list = append(list, m)
	}
	return append(list, ends...)
}

// daemons are the daemons of one machine, with the connections that the control
// plane would use.
type daemons struct {
	t      *testing.T
	m      *aMachine
	plane  *mux.Conn
	tokens map[string]string // by stream
}

// answers connects to a loopback port of the machine.
func (d *daemons) answers(port uint16) error {
	conn, err := d.plane.Open(d.t.Context(), mux.Port(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1)) // pod-daemon reports that it is connected
	return err
}

// environment compares the variables that a command gets with the table.
func (d *daemons) environment(c *pod.Conn) {
	d.t.Helper()
	e := execclient.NewCalls(c.OpenExec, token)
	defer e.Close()
	args, err := json.Marshal(map[string]string{"command": "env", "description": "see the environment"})
	if err != nil {
		d.t.Fatal(err)
	}
	r, _, err := e.Call(d.t.Context(), conversation.ToolCall{ID: "env", Name: "Shell", Args: args}, nil)
	if err != nil || r.Error {
		d.t.Fatalf("env: %v %s", err, r.Text)
	}
	got := map[string]string{}
	for line := range strings.Lines(r.Text) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			got[name] = value
		}
	}
	for _, v := range variables {
		value, there := got[v.name]
		switch {
		case v.later != "" && there:
			d.t.Errorf("%s is there, and the page says it is not", v.name)
		case v.later != "" || v.value == "":
		case !there, v.value != "*" && value != v.value:
			d.t.Errorf("%s is %q, want %s; all is\n%s", v.name, value, v.value, r.Text)
		}
	}
}

// call sends a request as Connect JSON, and returns the code of its response:
// "" for success, "cut" if the connection broke.
func (d *daemons) call(stream, token, procedure, request string, streaming bool) (code string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*time.Minute)
	defer cancel()
	client := machinerpc.NewClient(func(ctx context.Context) (net.Conn, error) {
		conn, err := d.plane.Open(ctx, stream)
		if err == nil && stream != mux.Pod {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		return conn, err
	})
	defer client.CloseIdleConnections()
	media, body := "application/json", []byte(request)
	if streaming {
		media, body = "application/connect+json", envelope(request)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://machine/"+procedure, bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := client.Do(req)
	if err != nil {
		return "cut"
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(res.Body)
	if err != nil {
		return "cut"
	}
	var said struct {
		Code  string
		Error struct{ Code string }
	}
	if !streaming || res.StatusCode != http.StatusOK {
		if res.StatusCode != http.StatusOK {
			_ = json.Unmarshal(reply, &said) // a status without a code is translated below
			return orElse(said.Code, map[int]string{401: "unauthenticated", 404: "unimplemented"}[res.StatusCode], res.Status)
		}
		return ""
	}
	for len(reply) >= 5 { // the last envelope contains the status
		flags, n := reply[0], int(binary.BigEndian.Uint32(reply[1:5]))
		if len(reply) < 5+n {
			return "cut"
		}
		if flags&2 != 0 {
			if err := json.Unmarshal(reply[5:5+n], &said); err != nil {
				d.t.Errorf("%s ends with %q", procedure, reply[5:5+n])
			}
			return said.Error.Code
		}
		reply = reply[5+n:]
	}
	return "cut"
}

func orElse(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

func envelope(message string) []byte {
	b := make([]byte, 5, 5+len(message))
	binary.BigEndian.PutUint32(b[1:], uint32(len(message)))
	return append(b, message...)
}
