package execclient

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/control/machinerpc"
	"aloft/internal/redact"
)

// testConn is a connection to a test's machine.
type testConn struct {
	dial     machinerpc.Dial
	lost     func(error) error
	redactor *redact.Redactor
}

func (c testConn) OpenExec(ctx context.Context) (net.Conn, error) { return c.dial(ctx) }

func (c testConn) OpenPTY(ctx context.Context) (net.Conn, error) { return c.dial(ctx) }

func (testConn) Done() <-chan struct{} { return nil }

func (c testConn) Lost(err error) error { return c.lost(err) }

func (c testConn) Redactor() *redact.Redactor { return c.redactor }

// still implements the method Lost for a connection that has not ended.
func still(err error) error { return err }

// execDaemon serves a Connect handler as exec-daemon does, and returns a
// function that dials it.
func execDaemon(t *testing.T, path string, h http.Handler) machinerpc.Dial {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(path, h)
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
}

// Every request contains the token, including requests whose messages are
// streams.
func TestRequestsCarryTheToken(t *testing.T) {
	got := make(chan string, 1)
	f := NewFiles(answering(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r.Header.Get("Authorization")
		w.WriteHeader(http.StatusNotFound)
	})), "secret")
	t.Cleanup(f.Close)
	for name, call := range map[string]func() error{
		"List": func() error { _, err := f.List(t.Context(), "/"); return err },
		"Read": func() error { _, _, _, err := f.Read(t.Context(), "/a", false); return err },
		"Pack": func() error { _, err := f.Pack(t.Context(), "/"); return err },
		"Write": func() error {
			_, _, err := f.Write(t.Context(), "/a", strings.NewReader("x"), 1, "", false)
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if token := <-got; token != "Bearer secret" {
			t.Errorf("%s sent %q", name, token)
		}
	}
}
