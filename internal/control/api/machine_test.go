package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/api/machines"
	"aloft/internal/fault"

	"github.com/coder/websocket"
)

// parrot is a machine that echoes what it receives.
type parrot struct {
	machines.Machines // methods that this test does not use
	closed            chan struct{}
}

func (e parrot) Open(_ context.Context, _, stream string) (net.Conn, error) {
	if stream != "ssh" {
		return nil, fault.NotFound("no stream %s", stream)
	}
	here, there := net.Pipe()
	go func() {
		_, _ = io.Copy(there, there)
		close(e.closed)
	}()
	return here, nil
}

func TestSSHIsAPipe(t *testing.T) {
	h := newHouse(t)
	machine := parrot{closed: make(chan struct{})}
	h.api.machines.Machines = machine
	id, _ := h.begin()
	dial := func(key string) (*websocket.Conn, *http.Response, error) {
		return websocket.Dial(t.Context(), h.http.URL+"/v1/agents/"+id+"/ssh", &websocket.DialOptions{
			HTTPHeader: http.Header{"Authorization": {"Bearer " + key}},
		})
	}
	for key, want := range map[string]int{"aloft_wrong": 401, bensKey: 404} {
		if _, reply, err := dial(key); err == nil || reply.StatusCode != want {
			t.Errorf("%s: %v %v", key, reply, err)
		}
	}
	ws, reply, err := dial(annsKey)
	if err != nil {
		t.Fatal(err)
	}
	if got := reply.Header.Get("Aloft-Machine"); got != "pipe" {
		t.Errorf("the machine is %q", got)
	}
	ws.SetReadLimit(-1)
	conn := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent)
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what comes back is another: %v", err)
	}
	_ = conn.Close()
	select {
	case <-machine.closed:
	case <-t.Context().Done():
	}
}

// TestRename checks that an agent can be renamed, and which names are refused.
func TestRename(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	for body, want := range map[string]int{`{"name":""}`: 400, `{}`: 400, `{"name":"` + strings.Repeat("a", 101) + `"}`: 400, `{"name":"` + strings.Repeat("ü", 100) + `"}`: 200, `{"name":"The parser"}`: 200} {
		h.want(h.call("PATCH", "/v1/agents/"+id, body), want)
	}
	h.want(h.call("PATCH", "/v1/agents/"+id, `{"name":"The parser"}`), 200)
	var heads [2]int64
	for i := range heads {
		h.want(h.call("PATCH", "/v1/agents/"+id, `{"name":"The parser"}`), 200)
		a, err := h.store.Agent(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		heads[i] = a.Head
	}
	if heads[0] != heads[1] {
		t.Error("renaming an agent to its own name journals an event")
	}
	h.restart()
	if name := h.want(h.call("GET", "/v1/agents/"+id, ""), 200).text(t, "name"); name != "The parser" {
		t.Errorf("after a restart the name is %q", name)
	}
}

func TestPause(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	for range 2 { // pausing a paused agent succeeds and journals nothing
		h.want(h.call("POST", "/v1/agents/"+id+"/pause", ""), 200)
	}
	if paused := h.want(h.call("GET", "/v1/agents/"+id, ""), 200).get(t, "paused"); paused != true {
		t.Errorf("paused is %v", paused)
	}
	h.restart()
	h.want(h.call("POST", "/v1/agents/"+id+"/resume", ""), 200)
	events, err := h.store.Read(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events[len(events)-2:] {
		kinds = append(kinds, e.Body.Kind())
	}
	if len(kinds) != 2 || kinds[0] != (&agent.Paused{}).Kind() || kinds[1] != (&agent.Resumed{}).Kind() {
		t.Errorf("the journal ends in %v", kinds)
	}
}
