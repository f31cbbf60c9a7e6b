package api

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/control/api/rest"
	"aloft/internal/control/ledger"
)

// TestEveryRouteBoundsItsBody sends an endless body to each route. The server
// must reply 413 and stop reading.
func TestEveryRouteBoundsItsBody(t *testing.T) {
	h := newHouse(t)
	large := 0
	for _, rt := range h.api.routes() {
		if rt.Method == http.MethodGet || rt.Takes != "" || rt.In == nil {
			continue
		}
		if slices.Contains(pictured, rt.ID) {
			if large++; mostOf(rt) != rest.MaxBody {
				t.Errorf("%s %s takes %d bytes, want %d", rt.Method, rt.Path, mostOf(rt), rest.MaxBody)
			}
			continue
		}
		path := h.subject(rt)
		body := &counted{Reader: spaces{}}
		req, err := http.NewRequestWithContext(t.Context(), rt.Method, h.http.URL+path, io.LimitReader(body, rest.MaxBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+annsKey)
		resp, err := h.http.Client().Do(req)
		if err != nil {
			continue // the server closed the connection while the client was still sending
		}
		said, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode < 400 || body.n.Load() > 4*maxPlain {
			t.Errorf("%s %s: %d after %d bytes: %s", rt.Method, rt.Path, resp.StatusCode, body.n.Load(), said)
		}
	}
	if large != len(pictured) {
		t.Errorf("%d routes take images, want %d", large, len(pictured))
	}
}

// counted counts the bytes that are read from a body. It is safe for concurrent
// use, since the HTTP client may still read while a test reads the count.
type counted struct {
	io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// TestLargeBodiesAtOnce has one user send more large bodies at once than are
// allowed. The server must still serve other users, and must serve the first
// user again after one of the requests has ended.
func TestLargeBodiesAtOnce(t *testing.T) {
	h := newHouse(t)
	h.api.config.Tally = &h.api.accounts.Disk.(*ledger.Ledger).Tally
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range maxLarge {
		started := make(chan struct{})
		feed, write := io.Pipe()
		go func() {
			_, _ = io.CopyN(write, spaces{}, maxPlain+1) // and then stall
			close(started)
		}()
		req, err := http.NewRequestWithContext(ctx, "POST", h.http.URL+"/v1/agents", feed)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+annsKey)
		go func() {
			if resp, err := h.http.Client().Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		<-started // the server has started to read the body
	}
	if got := h.api.accounts.Disk.Held(1); len(got) != 1 || got[0].Kind != ledger.Request || got[0].Count != maxLarge || got[0].Bytes != maxLarge*rest.MaxBody {
		t.Errorf("the ledger has %+v", got)
	}
	long := `{"prompt":{"text":"x"},"name":"` + strings.Repeat("x", maxPlain) + `"}`
	h.want(h.callAs(annsKey, "POST", "/v1/agents", long), 429)
	if code := h.callAs(bensKey, "POST", "/v1/agents", long).status; code == 429 {
		t.Errorf("another user gets %d", code)
	}
	h.want(h.callAs(annsKey, "POST", "/v1/agents", `{"prompt":{"text":"x"}}`), 201)
}
