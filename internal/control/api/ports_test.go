package api

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"aloft/internal/account"
	"aloft/internal/client"
	"aloft/internal/control/api/machines"
	"aloft/internal/control/preview"
)

// echo starts a server that reads everything a client sends and then sends it
// back.
func echo(t *testing.T) string {
	return listening(t, func(conn net.Conn) {
		all, _ := io.ReadAll(conn) // the caller checks the received bytes
		_, _ = conn.Write(all)
	})
}

// listening starts a server that handles each connection with serve, and
// returns its address.
func listening(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				serve(conn)
				_ = conn.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func TestForwardPort(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	h.work.port = echo(t)
	c, err := client.New(h.http.URL, annsKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 64 << 10, 5 << 20} {
		tun, err := c.DialPort(t.Context(), id, 3000)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		here, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		over := make(chan struct{})
		go func() { tun.Join(t.Context(), there); close(over) }()
		said := bytes.Repeat([]byte("x"), size)
		if _, err := here.Write(said); err != nil {
			t.Fatal(err)
		}
		if err := here.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		heard, err := io.ReadAll(here)
		if err != nil || !bytes.Equal(heard, said) {
			t.Errorf("said %d bytes, heard %d, %v", size, len(heard), err)
		}
		<-over
		_ = here.Close()
	}
	h.work.port = ""
	if _, err := c.DialPort(t.Context(), id, 3000); err == nil {
		t.Error("a port that is closed was opened")
	}
	stranger, err := client.New(h.http.URL, bensKey)
	if err != nil {
		t.Fatal(err)
	}
	h.work.port = echo(t)
	if _, err := stranger.DialPort(t.Context(), id, 3000); err == nil {
		t.Error("another's machine was reached")
	}
	h.want(h.call("GET", "/v1/agents/"+id+"/ports/0", ""), http.StatusBadRequest)
	h.want(h.call("GET", "/v1/agents/"+id+"/ports/70000", ""), http.StatusBadRequest)
	h.want(h.call("GET", "/v1/agents/"+id+"/ports/80", ""), http.StatusBadRequest)
	// A page of another site cannot use the browser's session.
	h.want(h.call("GET", "/v1/agents/"+id+"/ports/80", "", "Origin", "http://evil.test", "Connection", "Upgrade", "Upgrade", "websocket",
		"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), http.StatusForbidden)
}

func TestConnections(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	a := h.want(h.call("GET", "/v1/agents/"+id+"/connections?after=7&limit=5", ""), http.StatusOK)
	if !bytes.Contains(a.body, []byte(`"seq":8`)) || !bytes.Contains(a.body, []byte(`"limit 5"`)) || !bytes.Contains(a.body, []byte(`"open":[]`)) {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("GET", "/v1/agents/"+id+"/connections?limit=0", ""), http.StatusBadRequest)
}

func TestPreview(t *testing.T) {
	h := newHouse(t)
	id, _ := h.begin()
	path := "/v1/agents/" + id + "/ports/3000/preview"
	h.want(h.call("POST", path, ""), http.StatusNotImplemented)
	may := machines.MayReach(h.store, h.store)
	p, err := preview.New(preview.Config{
		Domain: "preview.localhost", Secret: bytes.Repeat([]byte{1}, 32), May: may,
		Dial: func(ctx context.Context, id string, port uint16) (net.Conn, error) {
			return h.work.DialPort(ctx, id, port)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.api.machines.Previews = p
	a := h.want(h.call("POST", path, ""), http.StatusCreated)
	if !bytes.Contains(a.body, []byte(`"url":"http://3000-`+id+`.preview.localhost`)) || !bytes.Contains(a.body, []byte(`/.aloft/sign-in?code=`)) {
		t.Errorf("%s", a.body)
	}
	h.want(h.call("POST", "/v1/agents/"+id+"/ports/0/preview", ""), http.StatusBadRequest)
	h.addBadKeys()
	for key, want := range map[string]bool{
		annsKey: true, h.subToken(1): true, adminsKey: true, bensKey: false, h.subToken(2): false, viewersKey: false,
		"aloft_nobodys": false, expiredKey: false, disabledKey: false,
	} {
		if err := may(t.Context(), account.HashKey(key), id); (err == nil) != want {
			t.Errorf("%s may reach Ann's machine: %v", key, err)
		}
	}
}
