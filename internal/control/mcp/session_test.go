package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/outbound"
	"aloft/internal/control/safe"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/policy"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const home = "https://aloft.example.com"

// newServers returns servers over a new store, which may contact 127.0.0.1 and
// the addresses in open.
func newServers(t testing.TB, open ...string) *Servers {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	keeper, err := safe.OpenKeeper(t.Context(), safe.LocalKeeper, filepath.Join(dir, "secrets.key"))
	if err != nil {
		t.Fatal(err)
	}
	vault, err := safe.New(safe.Config{Store: st, Keepers: []safe.Keeper{keeper}})
	if err != nil {
		t.Fatal(err)
	}
	reach, err := outbound.New(policy.Network{Open: append(open, "127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Vault: vault, Reach: reach, PublicURL: func() string { return home }, Version: "test",
		Foreign: func(agent.Egress) (*outbound.Client, error) { return reach, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tickets returns an MCP server with a resource and a tool that counts its
// calls.
func tickets(calls *atomic.Int32) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "tickets", Version: "1"}, nil)
	type in struct {
		ID string `json:"id" jsonschema:"of the ticket"`
	}
	sdk.AddTool(s, &sdk.Tool{Name: "show", Description: "Show a ticket."}, func(_ context.Context, _ *sdk.CallToolRequest, in in) (*sdk.CallToolResult, any, error) {
		calls.Add(1)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "ticket " + in.ID}}}, nil, nil
	})
	s.AddResource(&sdk.Resource{Name: "notes", URI: "notes://all", MIMEType: "text/plain"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "notes://all", Text: "all is well"}}}, nil
	})
	return s
}

func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}

func streamable(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

func remote(url string) mcp.Server { return mcp.Server{Name: "tickets", Type: mcp.HTTP, URL: url} }

func TestTransports(t *testing.T) {
	s := newServers(t)
	var calls atomic.Int32
	old := sdk.NewSSEHandler(func(*http.Request) *sdk.Server { return tickets(&calls) }, nil)
	for name, server := range map[string]mcp.Server{
		"Streamable":          remote(serve(t, streamable(tickets(&calls)))),
		"SSE":                 {Name: "old", Type: mcp.SSE, URL: serve(t, old)},
		"SSEWithoutBeingTold": remote(serve(t, old)),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := s.Test(t.Context(), server, User{ID: 1})
			if err != nil || len(l.Tools) != 1 || l.Tools[0].Name != "show" {
				t.Errorf("%+v, %v", l, err)
			}
		})
	}
}

// TestHeaders checks that headers are sent only to the server for which they
// are configured.
func TestHeaders(t *testing.T) {
	s := newServers(t)
	var calls atomic.Int32
	real := streamable(tickets(&calls))
	elsewhere := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("it was asked: %v", r.Header) }))
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Key") != "open sesame":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/away":
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		case r.URL.Path == "/old":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", elsewhere)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case r.URL.Path == "/here":
			http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
		default:
			real.ServeHTTP(w, r)
		}
	}))
	server := func(path string, kind mcp.Transport) mcp.Server {
		return mcp.Server{Name: "x", Type: kind, URL: at + path, Headers: map[string]string{"X-Key": "open sesame"}}
	}
	for _, path := range []string{"/mcp", "/here"} {
		if _, err := s.Test(t.Context(), server(path, mcp.HTTP), User{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for path, kind := range map[string]mcp.Transport{"/away": mcp.HTTP, "/old": mcp.SSE} {
		if _, err := s.Test(t.Context(), server(path, kind), User{}); err == nil || !strings.Contains(err.Error(), "another server") {
			t.Errorf("%s: %v", path, err)
		}
	}
	bare := server("/mcp", mcp.HTTP)
	bare.Headers = nil
	if _, err := s.Test(t.Context(), bare, User{}); fault.Of(err).Code != CodeSignIn {
		t.Errorf("without the header: %v", err)
	}
}

// TestReach checks that the policy judges the address that is actually dialled.
func TestReach(t *testing.T) {
	s := newServers(t)
	for _, url := range []string{"http://169.254.169.254/latest", "http://10.0.0.1/mcp", "http://[::1]:1/mcp"} {
		if _, err := s.Add(t.Context(), 1, false, remote(url)); fault.Of(err).Code != "address_blocked" {
			t.Errorf("%s is kept: %v", url, err)
		}
		if _, err := s.Test(t.Context(), remote(url), User{}); err == nil || !strings.Contains(err.Error(), "must not contact") {
			t.Errorf("%s is asked: %v", url, err)
		}
	}
	metadata := serve(t, http.RedirectHandler("http://169.254.169.254/latest", http.StatusTemporaryRedirect))
	if _, err := s.Test(t.Context(), remote(metadata), User{}); err == nil {
		t.Error("a redirect to the metadata address was followed")
	}
}

// TestHostile checks that a hostile server's responses are limited and
// redacted.
func TestHostile(t *testing.T) {
	s := newServers(t)
	for name, h := range map[string]http.HandlerFunc{
		"NoJSON": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{"))
		},
		"NoRPC": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"jsonrpc":"1","hello":[]}`))
		},
		"NoMCP": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>"))
		},
		"Endless": endless("application/json", "[[[["),
		"Stream":  endless("text/event-stream", "data: x\n"),
		"Events":  endless("text/event-stream", ": "+strings.Repeat("nothing ", 1000)+"\n\n"),
		"Error": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, r.Header.Get("X-Key"), http.StatusInternalServerError)
		},
		"Says": func(w http.ResponseWriter, r *http.Request) {
			var asked struct{ ID json.RawMessage }
			_ = json.NewDecoder(r.Body).Decode(&asked)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"your key is %s"}}`, asked.ID, r.Header.Get("X-Key"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := remote(serve(t, h))
			server.Headers = map[string]string{"X-Key": "open-sesame-2026"}
			_, err := s.Test(t.Context(), server, User{})
			if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("it says %v", err)
			}
			t.Log(err)
		})
	}
}

func endless(kind, piece string) http.HandlerFunc {
	block := []byte(strings.Repeat(piece, 256<<10/len(piece)))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", kind)
		for r.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// TestSilence checks that a call to an unresponsive server ends when its
// caller's context ends.
func TestSilence(t *testing.T) {
	s := newServers(t)
	asked := make(chan struct{}, 8)
	at := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // reading detects that the client has disconnected
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	began := time.Now()
	if _, err := s.Test(ctx, remote(at), User{}); err == nil || time.Since(began) > connectWithin {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestManyTools checks that an endless list is truncated.
func TestManyTools(t *testing.T) {
	s := newServers(t)
	many := sdk.NewServer(&sdk.Implementation{Name: "many", Version: "1"}, &sdk.ServerOptions{PageSize: 10})
	for i := range 3 * mcp.MaxTools {
		many.AddTool(&sdk.Tool{Name: fmt.Sprintf("t%d", i), InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return nil, nil })
	}
	l, err := s.Test(t.Context(), remote(serve(t, streamable(many))), User{})
	if err != nil || len(l.Tools) != mcp.MaxTools || l.LeftOut == 0 {
		t.Errorf("%d tools, %v", len(l.Tools), err)
	}
}
