package api

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/need"
	"aloft/internal/vnctest"

	"github.com/coder/websocket"
)

// startVNC starts a real VNC server whose screen has a single color, and
// returns the path of its socket.
func startVNC(t *testing.T, colour string) string {
	t.Helper()
	paint, server := need.Command(t, "xsetroot"), vnctest.Start(t, 64, 48)
	root := exec.CommandContext(t.Context(), paint, "-display", server.Display, "-solid", colour)
	if out, err := root.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return server.Socket
}

// cornerOf performs a viewer's handshake, receives the screen, and returns the
// pixel in the corner as 0xRRGGBB.
func cornerOf(t *testing.T, conn net.Conn) uint32 {
	t.Helper()
	say := func(parts ...any) {
		t.Helper()
		var b bytes.Buffer
		for _, p := range parts {
			if err := binary.Write(&b, binary.BigEndian, p); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Write(b.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(n int) []byte {
		t.Helper()
		b := make([]byte, n)
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		return b
	}
	if g := hear(12); string(g) != "RFB 003.008\n" {
		t.Fatalf("it greets with %q", g)
	}
	say([]byte("RFB 003.008\n"))
	if types := hear(int(hear(1)[0])); !bytes.Contains(types, []byte{1}) {
		t.Fatalf("security types %v", types)
	}
	say(byte(1)) // no authentication
	if r := hear(4); !bytes.Equal(r, make([]byte, 4)) {
		t.Fatalf("refused: %v", r)
	}
	say(byte(1)) // shared session
	hear(20)     // size and pixel format
	hear(int(binary.BigEndian.Uint32(hear(4))))
	say([]byte{0, 0, 0, 0, 32, 24, 0, 1}, [3]uint16{255, 255, 255}, []byte{16, 8, 0, 0, 0, 0}) // 32 bits per pixel, red in the highest byte
	say([]byte{2, 0}, uint16(1), int32(0))                                                     // raw encoding
	say([]byte{3, 0}, [4]uint16{0, 0, 1, 1})
	if u := hear(16); u[0] != 0 || binary.BigEndian.Uint32(u[12:]) != 0 {
		t.Fatalf("no picture: %v", u)
	}
	return binary.LittleEndian.Uint32(hear(4)) & 0xffffff
}

func TestDesktop(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	path := "/v1/agents/" + id + "/desktop"
	dial := func(key string, header ...string) (*websocket.Conn, *http.Response, error) {
		hd := http.Header{"Authorization": {"Bearer " + key}}
		for i := 0; i < len(header); i += 2 {
			hd.Set(header[i], header[i+1])
		}
		return websocket.Dial(t.Context(), h.http.URL+path+"/vnc", &websocket.DialOptions{HTTPHeader: hd, Subprotocols: []string{"binary"}})
	}
	refused := func(want int, ws *websocket.Conn, reply *http.Response, err error) {
		t.Helper()
		if err == nil {
			_ = ws.CloseNow()
		}
		if err == nil || reply.StatusCode != want {
			t.Errorf("%v %v, want %d", reply, err, want)
		}
	}

	// Try a machine without a desktop, and one whose server does not speak VNC.
	if a := h.want(h.call("GET", path, ""), 200); a.get(t, "running") != false || !strings.Contains(a.text(t, "hint"), "tigervnc-standalone-server") {
		t.Errorf("%s", a.body)
	}
	ws, reply, err := dial(annsKey)
	refused(404, ws, reply, err)
	web := otherServer(t)
	h.work.port = web
	if a := h.want(h.call("GET", path, ""), 200); a.get(t, "running") != false || !strings.Contains(a.text(t, "reason"), "not a VNC server") {
		t.Errorf("%s", a.body)
	}
	ws, reply, err = dial(annsKey)
	refused(404, ws, reply, err)

	h.work.port = startVNC(t, "#2060a0")
	if a := h.want(h.call("GET", path, ""), 200); a.get(t, "running") != true || a.text(t, "protocol") != "3.8" {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("GET", path+"/vnc", ""), 400)
	ws, reply, err = dial(bensKey)
	refused(404, ws, reply, err)
	ws, reply, err = dial(viewersKey)
	refused(403, ws, reply, err)
	ws, reply, err = dial(annsKey, "Origin", "https://elsewhere.example")
	refused(403, ws, reply, err)
	if ws, _, err = dial(annsKey); err != nil {
		t.Fatal(err)
	}
	if p := ws.Subprotocol(); p != "binary" {
		t.Errorf("subprotocol %q", p)
	}
	ws.SetReadLimit(-1)
	conn := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
	defer conn.Close()
	if got := cornerOf(t, conn); got != 0x2060a0 {
		t.Errorf("the screen is %#x", got)
	}
}

// otherServer listens like a VNC server but speaks another protocol.
func otherServer(t *testing.T) string {
	return listening(t, func(conn net.Conn) { _, _ = io.WriteString(conn, "220 mail.example.com ESMTP\r\n") })
}

// The server closes WebSockets and streams when their caller loses access.
func TestSocketsEndWithTheRight(t *testing.T) {
	for name, end := range map[string]func(h *house, key account.APIKey) error{
		"Key":  func(h *house, k account.APIKey) error { return h.store.RemoveKey(t.Context(), k.UserID, k.ID) },
		"Role": changeUser(func(u *account.User) { u.Role = account.Viewer }),
		"View": changeUser(func(u *account.User) { u.Role = account.Member }), // Ann owns the agent
		"User": changeUser(func(u *account.User) { u.Disabled = true }),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.api.allowed = time.Millisecond
			machine := parrot{closed: make(chan struct{})}
			h.api.machines.Machines = machine
			id, runID := h.begin()
			streams := []*http.Response{
				h.opened(adminsKey, "/v1/agents/"+id+"/runs/"+runID+"/stream"), h.opened(adminsKey, "/v1/agents/"+id+"/events?follow=true"),
			}
			ws, _, err := websocket.Dial(t.Context(), h.http.URL+"/v1/agents/"+id+"/ssh", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + adminsKey}}})
			if err != nil {
				t.Fatal(err)
			}
			conn := websocket.NetConn(t.Context(), ws, websocket.MessageBinary)
			defer conn.Close()
			for range 3 { // the connection stays open while the user has access
				b := []byte("still here")
				if _, err := conn.Write(b); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(conn, b); err != nil {
					t.Fatal(err)
				}
			}
			key, err := h.store.Key(t.Context(), account.HashKey(adminsKey))
			if err == nil {
				err = end(h, key)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(conn); err == nil {
				t.Error("it ended as if it were over")
			}
			<-machine.closed
			if name == "Role" {
				return // a viewer may read an agent's events
			}
			for _, s := range streams {
				_, _ = io.Copy(io.Discard, s.Body) // the stream ends, with or without an error
			}
		})
	}
}

// opened opens a stream that does not end.
func (h *house) opened(key, path string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.http.URL+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = reply.Body.Close() })
	if reply.StatusCode != http.StatusOK {
		h.t.Fatalf("%s is %s", path, reply.Status)
	}
	return reply
}

func changeUser(change func(*account.User)) func(*house, account.APIKey) error {
	return func(h *house, k account.APIKey) error {
		_, err := h.store.UpdateUser(h.t.Context(), k.UserID, func(u *account.User) error { change(u); return nil })
		return err
	}
}
