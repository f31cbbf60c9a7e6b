package tunnel

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	here, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	return here.(*net.TCPConn), there.(*net.TCPConn)
}

// tunnelled returns both ends of a connection through a tunnel.
func tunnelled(t *testing.T) (client, server *net.TCPConn, over chan struct{}) {
	t.Helper()
	server, far := pair(t)
	over = make(chan struct{}, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		Join(r.Context(), ws, far)
		over <- struct{}{}
	}))
	t.Cleanup(srv.Close)
	ws, _, err := websocket.Dial(t.Context(), srv.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, near := pair(t)
	go func() {
		Join(t.Context(), ws, near)
		over <- struct{}{}
	}()
	return client, server, over
}

func await(t *testing.T, over chan struct{}) {
	t.Helper()
	for range 2 {
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			t.Fatal("an end of the tunnel goes on")
		}
	}
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, chunk, 3*chunk + 1, 8 << 20} {
		client, server, over := tunnelled(t)
		said := strings.Repeat("x", size)
		go func() {
			_, _ = io.WriteString(client, said) // the reader counts the bytes
			_ = client.CloseWrite()
		}()
		heard, err := io.ReadAll(server)
		if err != nil || string(heard) != said {
			t.Errorf("%d of %d bytes, %v", len(heard), size, err)
		}
		if _, err := io.WriteString(server, "answer"); err != nil {
			t.Error(err)
		}
		_ = server.Close()
		if answer, err := io.ReadAll(client); err != nil || string(answer) != "answer" {
			t.Errorf("%q, %v", answer, err)
		}
		await(t, over)
	}
}

func TestBrokenEndEndsTheOther(t *testing.T) {
	t.Parallel()
	client, server, over := tunnelled(t)
	if _, err := io.WriteString(client, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = client.SetLinger(0)
	_ = client.Close() // a reset
	_ = server.SetReadDeadline(time.Now().Add(2 * time.Minute))
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Error("the other end hears something")
	}
	await(t, over)
}
