package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"aloft/internal/control/api/machines"
	"aloft/internal/fault"
	"aloft/internal/terminal"
)

// farEnd is a machine whose terminals connect to the test's WebSocket echo
// server.
type farEnd struct {
	machines.Machines // methods that this test does not use
	url               string
}

type farPTY struct{ *websocket.Conn }

func (p farPTY) Close() error { return p.CloseNow() }

func (f farEnd) PTY(ctx context.Context, _ string) (machines.PTY, error) {
	if f.url == "" {
		return nil, fault.Conflict("the agent has no machine now").Named("no_machine")
	}
	ws, _, err := websocket.Dial(ctx, f.url, nil)
	return farPTY{ws}, err
}

func (f farEnd) Terminals(context.Context, string) ([]terminal.Terminal, error) {
	code := 3
	return []terminal.Terminal{{Name: "main", Created: time.Unix(0, 0), Columns: 80, Rows: 24}, {Name: "t2", Dead: true, ExitCode: &code}}, nil
}

func (f farEnd) CreateTerminal(_ context.Context, _ string, n terminal.New) (terminal.Terminal, bool, error) {
	return terminal.Terminal{Name: n.Name, Columns: n.Columns}, n.Name != "main", nil
}

func (f farEnd) Ports(context.Context, string) ([]machines.Port, error) {
	return []machines.Port{{Port: 3000, Program: "node"}, {Port: 65535}}, nil
}

// TestListeningPorts checks the list of ports, and the reply of a server that cannot reach
// machines.
func TestListeningPorts(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	h.want(h.call("GET", "/v1/agents/"+id+"/ports", ""), http.StatusNotImplemented)
	h.api.machines.Machines = farEnd{}
	if a := h.want(h.call("GET", "/v1/agents/"+id+"/ports", ""), 200); strings.TrimSpace(string(a.body)) != `{"items":[{"port":3000,"program":"node"},{"port":65535}]}` {
		t.Errorf("%s", a.body)
	}
}

func TestTerminals(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	if a := h.call("GET", "/v1/agents/"+id+"/terminals", ""); a.status != http.StatusNotImplemented {
		t.Errorf("%d %s", a.status, a.body)
	}
	h.api.machines.Machines = farEnd{}
	if a := h.want(h.call("GET", "/v1/agents/"+id+"/terminals", ""), 200); !strings.Contains(string(a.body), `"name":"main"`) || !strings.Contains(string(a.body), `"exitCode":3`) {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/terminals", `{"name":"new","columns":90}`), 201)
	h.want(h.call("POST", "/v1/agents/"+id+"/terminals", `{"name":"main"}`), 200)
	h.want(h.call("POST", "/v1/agents/"+id+"/terminals", `{"name":7}`), 400)
	if a := h.want(h.call("GET", "/v1/agents/"+id+"/pty", ""), 409); !strings.Contains(string(a.body), "no_machine") {
		t.Errorf("%s", a.body)
	}
}

// The server forwards messages and close frames unchanged in both directions.
func TestPTYIsPassedOn(t *testing.T) {
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for {
			kind, b, err := ws.Read(r.Context())
			if err != nil {
				return
			}
			if string(b) == "die" {
				_ = ws.CloseNow()
				return
			}
			if string(b) == "end" {
				_ = ws.Close(websocket.StatusPolicyViolation, "why")
				return
			}
			if ws.Write(r.Context(), kind, b) != nil {
				return
			}
		}
	}))
	defer far.Close()
	h := newHouse(t)
	h.api.machines.Machines = farEnd{url: far.URL}
	agentID, _ := h.begin()
	server := httptest.NewServer(h.api.handler())
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dial := func(header http.Header) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(ctx, server.URL+"/v1/agents/"+agentID+"/pty", &websocket.DialOptions{HTTPHeader: header})
	}
	key := http.Header{"Authorization": {"Bearer " + annsKey}}
	if _, res, err := dial(nil); err == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %v", err)
	}
	foreign := key.Clone()
	foreign.Set("Origin", "https://elsewhere.example")
	if _, res, err := dial(foreign); err == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %v", err)
	}
	ws, _, err := dial(key)
	if err != nil {
		t.Fatal(err)
	}
	for kind, message := range map[websocket.MessageType]string{websocket.MessageText: `{"a":1}`, websocket.MessageBinary: "\x00\xff\x01"} {
		if err := ws.Write(ctx, kind, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if k, b, err := ws.Read(ctx); err != nil || k != kind || string(b) != message {
			t.Errorf("%v %q, %v", k, b, err)
		}
	}
	if err := ws.Write(ctx, websocket.MessageText, []byte("end")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("%v", err)
	}
	ws, _, err = dial(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.Write(ctx, websocket.MessageText, []byte("die")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway && !errors.Is(err, io.EOF) {
		t.Errorf("a machine that is gone: %v", err)
	}
}
