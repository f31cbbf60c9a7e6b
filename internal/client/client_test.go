package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL+"/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	c.wait = backoff{first: time.Microsecond, most: time.Microsecond, tries: 3}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func TestNewRefusesWhatIsNoServer(t *testing.T) {
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://u:p@x", "http://x?a=b", "http://x/#a", "\x00"} {
		if _, err := New(bad, ""); err == nil {
			t.Errorf("New(%q) has no error", bad)
		}
	}
}

func TestRequestIsAsTheAPIWants(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+r.RequestURI+" "+string(body))
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Error("the key is missing")
		}
		fmt.Fprint(w, `{}`)
	})
	ctx := t.Context()
	_, _, err := c.CreateAgent(ctx, NewAgent{
		Prompt: Prompt{Text: "hi", Images: []Image{{[]byte{1}, "image/png"}}}, Model: &ModelRef{ID: "m"}, Repos: []Repo{{URL: "u"}},
	}, "k")
	_, err2 := c.Agents(ctx, 5, "c d", false)
	_, err3 := c.Agent(ctx, "../me")
	_, err4 := c.Run(ctx, "a", "..")
	if err := errors.Join(err, err2, err3, err4, c.Cancel(ctx, "a", "r")); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`POST /v1/agents {"prompt":{"text":"hi","images":[{"data":"AQ==","mimeType":"image/png"}]},"model":{"id":"m"},"repos":[{"url":"u"}]}`,
		`GET /v1/agents?cursor=c+d&includeArchived=false&limit=5 `,
		`GET /v1/agents/..%2Fme `,
		`GET /v1/agents/a/runs/- `,
		`POST /v1/agents/a/runs/r/cancel `,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests differ (-want +got):\n%s", diff)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "r1")
		w.Header().Set("Retry-After", "2")
		switch r.URL.Path {
		case "/v1/agents/busy":
			w.WriteHeader(409)
			fmt.Fprint(w, `{"error":{"code":"agent_busy","message":"it works","helpUrl":"https://example.com"}}`)
		case "/v1/agents/proxy":
			w.WriteHeader(502)
			fmt.Fprint(w, `<html>`)
		case "/v1/agents/moved":
			http.Redirect(w, r, "http://evil.example.com/", http.StatusFound)
		default:
			fmt.Fprint(w, `<html>`)
		}
	})
	for id, want := range map[string]*Error{
		"busy":  {Status: 409, Code: "agent_busy", Message: "it works", HelpURL: "https://example.com", RequestID: "r1", RetryAfter: 2 * time.Second},
		"proxy": {Status: 502, Code: "http_502", Message: "the server answered 502 Bad Gateway", RequestID: "r1", RetryAfter: 2 * time.Second},
		"moved": {Status: 302, Code: "http_302", Message: "the server answered 302 Found", RequestID: "r1", RetryAfter: 2 * time.Second},
	} {
		_, err := c.Agent(t.Context(), id)
		got, _ := errors.AsType[*Error](err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: error differs (-want +got):\n%s", id, diff)
		}
	}
	if _, err := c.Agent(t.Context(), "html"); err == nil || !strings.Contains(err.Error(), "is "+c.URL()+" an Aloft server") {
		t.Errorf("error of a page is %v", err)
	}
}

func TestNobodyThereIsUnreachable(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	c, err := New(s.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Me(t.Context())
	if u, ok := errors.AsType[*UnreachableError](err); !ok || u.URL != s.URL {
		t.Errorf("error is %v", err)
	}
}

// TestStreamIsTakenUpAgain cuts the connection after every event. The client
// must get each event once.
func TestStreamIsTakenUpAgain(t *testing.T) {
	const events = 8
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		next := 1
		if last := r.Header.Get("Last-Event-ID"); last != "" {
			fmt.Sscanf(last, "e%d", &next)
			next++
		}
		if next == 4 && r.Header.Get("X-Seen") == "" && len(r.Header.Get("Last-Event-ID"))%2 == 1 {
			w.WriteHeader(503)
			return
		}
		fmt.Fprintf(w, ": hello\n\nevent: heartbeat\ndata: {}\n\n")
		if next > events {
			fmt.Fprintf(w, "event: done\ndata: {}\n\n")
			return
		}
		fmt.Fprintf(w, "id: e%d\nevent: assistant\ndata: {\"text\":\"%d\"}\n\nid: e%d\nevent: assi", next, next, next+1)
	})
	var got []string
	for e, err := range c.Stream(t.Context(), "a", "r", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ID+e.Event+string(e.Data))
	}
	var want []string
	for i := 1; i <= events; i++ {
		want = append(want, fmt.Sprintf(`e%dassistant{"text":"%d"}`, i, i))
	}
	if diff := cmp.Diff(append(want, "done{}"), got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

func TestStreamGivesUp(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"NotFound": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"Broken":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"Empty":    func(http.ResponseWriter, *http.Request) {},
		"NoJSON":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "id: 1\ndata: <html>\n\n") },
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			c := serve(t, func(w http.ResponseWriter, r *http.Request) { tries++; h(w, r) })
			var last error
			for _, err := range c.Stream(t.Context(), "a", "r", "") {
				last = err
			}
			if last == nil || tries > 4 {
				t.Errorf("error is %v after %d tries", last, tries)
			}
		})
	}
}

func TestStreamEndsWithTheContext(t *testing.T) {
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "id: 1\nevent: assistant\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	var last error
	for _, err := range c.Stream(ctx, "a", "r", "") {
		last = err
		cancel(why)
	}
	if !errors.Is(last, why) {
		t.Errorf("error is %v; want the cause", last)
	}
}

func TestEventsAreFollowed(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		after := json.Number(r.URL.Query().Get("after"))
		n, _ := after.Int64()
		if n >= 3 && r.URL.Query().Get("follow") == "true" {
			w.WriteHeader(404) // it was deleted
			return
		}
		for ; n < 3; n++ {
			fmt.Fprintf(w, "{\"seq\":%d,\"kind\":\"notice\",\"data\":{}}\n\n", n+1)
			if r.URL.Query().Get("follow") == "true" {
				return // the connection was cut
			}
		}
	})
	for _, follow := range []bool{false, true} {
		var got []int64
		var last error
		for e, err := range c.Events(t.Context(), "a", 0, follow) {
			if last = err; err == nil {
				got = append(got, e.Seq)
			}
		}
		if diff := cmp.Diff([]int64{1, 2, 3}, got); diff != "" {
			t.Errorf("follow %v: events differ (-want +got):\n%s", follow, diff)
		}
		if e, _ := errors.AsType[*Error](last); follow != (e != nil) {
			t.Errorf("follow %v: error is %v", follow, last)
		}
	}
}
