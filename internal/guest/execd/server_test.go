package execd

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

var testToken = strings.Repeat("0123456789abcdef", 4)

// rig is a running server and what a client needs to use it.
type rig struct {
	*Server
	url    string
	client *http.Client
	log    *lockedBuffer
	stop   func()
}

// serve runs a server until the test ends or stop is called.
func serve(t *testing.T, cfg Config) *rig {
	t.Helper()
	said := new(lockedBuffer)
	cfg.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	cfg.Token = testToken
	if cfg.StateDir == "" {
		cfg.StateDir = t.TempDir()
	}
	if cfg.Workspace == "" {
		cfg.Workspace = t.TempDir()
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	stop := sync.OnceFunc(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if strings.Contains(said.String(), testToken) {
			t.Error("the token is in the log")
		}
	})
	t.Cleanup(stop)
	return &rig{s, "http://" + l.Addr().String(), &http.Client{Transport: transport}, said, stop}
}

// bearer adds a token to each request.
type bearer string

func (b bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		req.Header().Set("Authorization", "Bearer "+string(b))
		return next(ctx, req)
	}
}

func (b bearer) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		conn.RequestHeader().Set("Authorization", "Bearer "+string(b))
		return conn
	}
}

func (bearer) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (r *rig) control() agentv1connect.ControlServiceClient {
	return agentv1connect.NewControlServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken)))
}

// stream is an ExecStream whose hello message has been read.
type stream struct {
	*connect.BidiStreamForClient[agentv1.ExecStreamElement, agentv1.ExecServerElement]
	t   *testing.T
	cut context.CancelFunc
}

func (r *rig) stream(t *testing.T) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	s := &stream{agentv1connect.NewExecServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken))).ExecStream(ctx), t, cancel}
	if err := s.Send(nil); err != nil {
		t.Fatal(err)
	}
	if h := s.next().GetHello(); h.GetBootId() != r.BootID() || len(h.GetCatalogueDigest()) != 64 {
		t.Fatalf("hello is %v", h)
	}
	return s
}

func (s *stream) next() *agentv1.ExecServerElement {
	s.t.Helper()
	element, err := s.Receive()
	if err != nil {
		s.t.Fatal(err)
	}
	return element
}

// result skips deltas and returns the next result.
func (s *stream) result() *agentv1.ExecCompleted {
	s.t.Helper()
	for {
		if done := s.next().GetCompleted(); done != nil {
			return done
		}
	}
}

func (s *stream) send(element *agentv1.ExecStreamElement) {
	s.t.Helper()
	if err := s.Send(element); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stream) ask(id string, call *agentv1.ToolCall) {
	s.t.Helper()
	s.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientMessage{
		ExecClientMessage: &agentv1.ExecClientMessage{CallId: id, ToolCall: call},
	}})
}

// control sends a control message and then a heartbeat. The reply to the
// heartbeat confirms that the message has taken effect.
func (s *stream) control(m *agentv1.ExecClientControlMessage) {
	s.t.Helper()
	s.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{ExecClientControlMessage: m}})
	s.beat()
	for {
		if s.next().GetHeartbeat().GetSequence() == 7 {
			return
		}
	}
}

func (s *stream) beat() {
	s.t.Helper()
	s.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{ExecClientControlMessage: &agentv1.ExecClientControlMessage{
		Control: &agentv1.ExecClientControlMessage_Heartbeat{Heartbeat: &agentv1.Heartbeat{Sequence: 7}},
	}}})
}

func (s *stream) ack(id string) {
	s.t.Helper()
	s.control(&agentv1.ExecClientControlMessage{Control: &agentv1.ExecClientControlMessage_Ack{Ack: &agentv1.AckCall{CallId: id}}})
}

func (s *stream) abort(id, reason string) {
	s.t.Helper()
	s.send(&agentv1.ExecStreamElement{Element: &agentv1.ExecStreamElement_ExecClientControlMessage{
		ExecClientControlMessage: &agentv1.ExecClientControlMessage{
			Control: &agentv1.ExecClientControlMessage_Abort{Abort: &agentv1.AbortCall{CallId: id, Reason: reason}},
		},
	}})
}

// lockedBuffer is a buffer that is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func shellCall(command string) *agentv1.ToolCall {
	return &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{
		Args: &agentv1.ShellArgs{Command: command},
	}}}
}

func shellDelta(text string) *agentv1.ToolCallDelta {
	return &agentv1.ToolCallDelta{Delta: &agentv1.ToolCallDelta_ShellToolCallDelta{
		ShellToolCallDelta: &agentv1.ShellToolCallDelta{Stdout: text},
	}}
}

// shellTool returns a Shell tool that runs a Go function instead of bash.
func shellTool(run func(ctx context.Context, command string, say func(string)) string) tool.Tool {
	return tool.Tool{Name: "Shell", Run: func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		text := run(ctx, call.GetShellToolCall().GetArgs().GetCommand(), func(s string) { emit(shellDelta(s)) })
		return tool.Outcome{Text: text, Error: ctx.Err() != nil, Call: &agentv1.ToolCall{
			Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{Result: &agentv1.ShellResult{
				Result: &agentv1.ShellResult_Success{Success: &agentv1.ShellSuccess{Stdout: text}},
			}}},
		}}
	}}
}

func listenLocal(t *testing.T) (net.Listener, error) {
	t.Helper()
	return net.Listen("tcp", "127.0.0.1:0")
}
