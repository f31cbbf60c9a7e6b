package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"aloft/internal/account"
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
// allowed. The server must still serve other users, and must still serve small requests
// of the first user.
func TestLargeBodiesAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		path           string
		allowed, bytes int
	}{
		"large": {"/v1/agents", maxLarge, maxPlain + 1}, "medium": {"/v1/rules/me/rules.md", maxMedium, mediumBody + 1},
	} {
		t.Run(name, func(t *testing.T) { largeBodiesAtOnce(t, c.path, c.allowed, c.bytes) })
	}
}

func largeBodiesAtOnce(t *testing.T, path string, allowed, bytes int) {
	h := newHouse(t)
	h.api.config.Tally = &h.api.accounts.Disk.(*ledger.Ledger).Tally
	method, most := http.MethodPost, int64(rest.MaxBody)
	if strings.Contains(path, "rules") {
		method, most = http.MethodPut, maxPlain
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for n := range allowed {
		feed, write := io.Pipe()
		go func() { _, _ = io.CopyN(write, spaces{}, int64(bytes)) }() // and then stall
		req, err := http.NewRequestWithContext(ctx, method, h.http.URL+path, feed)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+annsKey)
		go func() {
			if resp, err := h.http.Client().Do(req); err == nil {
				_ = resp.Body.Close()
			}
		}()
		for h.api.larges.inProgress() <= n { // until the server has counted the request
			runtime.Gosched()
		}
	}
	if got := h.api.accounts.Disk.Held(1); len(got) != 1 || got[0].Kind != ledger.Request || got[0].Count != allowed || got[0].Bytes != int64(allowed)*most {
		t.Errorf("the ledger has %+v", got)
	}
	long := `{"text":"x","prompt":{"text":"x"},"name":"` + strings.Repeat("x", bytes) + `"}`
	h.want(h.callAs(annsKey, method, path, long), 429)
	if code := h.callAs(bensKey, method, path, long).status; code == 429 {
		t.Errorf("another user gets %d", code)
	}
	if code := h.callAs(annsKey, method, path, `{"text":"x","prompt":{"text":"x"}}`).status; code/100 != 2 {
		t.Errorf("a small request gets %d", code)
	}
}

// inProgress returns the number of requests that are counted.
func (l *larges) inProgress() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, of := range l.of {
		n += of
	}
	return n
}

func TestClassesOfBodies(t *testing.T) {
	who := account.APIKey{UserID: 3}
	for length, allowed := range map[int64]int{1: maxBodies, mediumBody: maxBodies, mediumBody + 1: maxMedium, maxPlain: maxMedium, maxPlain + 1: maxLarge} {
		if got := classOf(length, who); got != (bodies{3, allowed}) {
			t.Errorf("%d bytes: %+v, want %d at once", length, got, allowed)
		}
	}
	var l larges
	request := func(method string, length int64, userID int64) (func(), error) {
		r := httptest.NewRequest(method, "/", nil)
		r.ContentLength = length
		return l.bound(httptest.NewRecorder(), r, rest.Route{}, account.APIKey{UserID: userID}, new(ledger.Tally))
	}
	for range maxBodies {
		if _, err := request(http.MethodPost, 10, 1); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := request(http.MethodPost, 10, 1); err == nil {
		t.Errorf("more than %d short requests are in progress", maxBodies)
	}
	for name, err := range map[string]error{"another user": second(request(http.MethodPost, 10, 2)), "no body": second(request(http.MethodPost, 0, 1)), "a sign-in": second(request(http.MethodPost, 10, 0))} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ func(), err error) error { return err }
