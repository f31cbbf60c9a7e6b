package api

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/api/stream"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// FuzzRequests checks that no names, numbers, paths or headers cause an
// internal error.
func FuzzRequests(f *testing.F) {
	for _, s := range [][2]string{
		{"..", "../../etc/passwd"}, {"%2e%2e%2f", "/proc/self/environ"}, {"a b\x00", "a\x00b"}, {"*", `"` + strings.Repeat("0", 64) + `"`}, {"9223372036854775808", "bytes=0-,5-1,-0"},
		{"\xff", "-1"}, {"bc-00000000-0000-4000-8000-000000000001", "00000000000002-00000-00000000"}, {"run-x", "YSAxIA"}, {"?", "bytes=-9223372036854775809"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		h := newHouse(t)
		h.work.diff = func(string) (string, bool, error) { return "", false, nil }
		id, runID := h.begin()
		h.append(id, runID, finish())
		handler := h.api.handler()
		param := regexp.MustCompile(`\{\w+\}`)
		for _, rt := range h.api.routes() {
			for _, path := range []string{rt.Path, strings.NewReplacer("/agents/{id}", "/agents/"+id, "{runId}", runID).Replace(rt.Path)} {
				if path = param.ReplaceAllLiteralString(path, url.PathEscape(name)); path == "/v1/agents/"+id && rt.Method == http.MethodDelete {
					continue
				}
				query := url.Values{"path": {value}}
				for _, p := range rt.Query {
					if p.Name != "follow" { // a followed stream does not end
						query.Set(p.Name, value)
					}
				}
				r, err := http.NewRequestWithContext(t.Context(), rt.Method, "http://x"+path+"?"+query.Encode(), strings.NewReader(value))
				if err != nil {
					t.Fatal(err)
				}
				for _, header := range []string{"If-Match", "If-None-Match", "If-Range", "Range", "Last-Event-ID", "Idempotency-Key", "X-Request-Id", "Traceparent"} {
					r.Header.Set(header, value)
				}
				r.Header.Set("Authorization", "Bearer "+annsKey)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code == http.StatusInternalServerError || w.Header().Get("X-Request-Id") == "" {
					t.Errorf("%s %s: %d %v %s", rt.Method, path, w.Code, w.Header(), w.Body)
				}
				if w.Code >= http.StatusBadRequest && !json.Valid(w.Body.Bytes()) {
					t.Errorf("%s %s: %d says %q", rt.Method, path, w.Code, w.Body)
				}
			}
		}
	})
}

func mustBeInvalid(t *testing.T, err error) {
	t.Helper()
	if f := rest.FaultOf(err); f.Kind != fault.KindInvalid || f.Message == "" {
		t.Errorf("not a fault of the request: %v", err)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(rest.Cursor(rest.AgentList, time.Unix(1, 5), "bc-1"))
	f.Add(rest.Cursor(rest.RunList, time.Unix(1, 5), "run-1"))
	f.Add("")
	f.Add("YSAxIA")
	f.Fuzz(func(t *testing.T, s string) {
		at, id, err := rest.ParseCursor(s, rest.AgentList)
		if err != nil {
			mustBeInvalid(t, err)
			return
		}
		if got := rest.Cursor(rest.AgentList, at, id); got != s {
			t.Errorf("%q is read as %v %q, which is %q", s, at, id, got)
		}
	})
}

// FuzzFrames checks that the projector turns any text from a model or a machine
// into frames that a client can parse, and that it is deterministic.
func FuzzFrames(f *testing.F) {
	f.Add(uint64(1), "Hello", `{"a":[1,"x"]}`)
	f.Add(uint64(7), "\xff\r\n\n", `{"success":`)
	f.Fuzz(func(t *testing.T, seed uint64, text, raw string) {
		r := rand.New(rand.NewPCG(seed, 1))
		var events []agent.Event
		for i := range 12 {
			body := []agent.Body{
				&agent.TextDelta{Text: text}, &agent.ThinkingDelta{Text: text}, &agent.CallSent{CallID: text}, &agent.CallDelta{CallID: text, Stdout: raw},
				&agent.CallDone{CallID: text, Text: text, Output: json.RawMessage(raw)}, &agent.TurnReplied{Message: messageOf(text, raw)},
				&agent.ModelRetry{}, &agent.RunStarted{},
			}[r.IntN(8)]
			events = append(events, agent.Event{Seq: int64(i + 1), RunID: "r", Body: body})
		}
		events = append(events, agent.Event{Seq: 13, RunID: "r", Body: &agent.RunEnded{Status: agent.Finished, Result: text}})
		show := func() string {
			return string(stream.ReplayRun(agent.Run{ID: "r", AgentID: "bc-1", Status: agent.Finished}, events))
		}
		once := show()
		if once != show() {
			t.Error("the same events make other frames")
		}
		holdToSpecification(t, readEvents(t, strings.NewReader(once)))
	})
}

func messageOf(text, raw string) conversation.Message {
	m := conversation.Text(conversation.Assistant, text)
	m.Blocks = append(m.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: text, Name: text, Args: json.RawMessage(raw)}})
	return m
}
