package anthropic_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/conversation"
)

// replay sends a request to a server that replies with a recorded stream.
func replay(t *testing.T, raw string) (*model.Reply, error) {
	t.Helper()
	s := modeltest.NewAnthropic(t, modeltest.Reply{Raw: raw})
	m := anthropic.New(anthropic.Config{Name: modeltest.Model, BaseURL: s.URL + "/v1/", Key: modeltest.Key})
	req := model.Request{Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}
	for ev, err := range m.Stream(t.Context(), req) {
		if err != nil || ev.Done != nil {
			return ev.Done, err
		}
	}
	t.Fatal("no reply and no error")
	return nil, nil
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPublishedStreams(t *testing.T) {
	for name, want := range map[string]model.Reply{
		"text.sse": {
			Message: conversation.Text(conversation.Assistant, "Hello!"), Stop: model.StopEnd,
			Usage: conversation.Usage{Input: 25, Output: 15, CacheRead: 2000, CacheWrite: 100}},
		"tool.sse": {
			Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
				{Text: "Okay, let's check:"},
				{Call: &conversation.ToolCall{ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather",
					Args: json.RawMessage(`{"location": "San Francisco, CA"}`)}}}},
			Stop: model.StopCalls, Usage: conversation.Usage{Input: 472, Output: 89}},
		"thinking.sse": {
			Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
				{Thinking: &conversation.Thinking{Provider: "anthropic", Model: modeltest.Model, Opaque: "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds",
					Text: "I need to find the GCD of 1071 and 462 using the Euclidean algorithm."}},
				{Thinking: &conversation.Thinking{Provider: "anthropic", Model: modeltest.Model, Opaque: "redacted:EmwKAhgBEgy3va3pzix"}},
				{Text: "The GCD is 21."}}},
			Stop: model.StopLength, Usage: conversation.Usage{Input: 10, Output: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := replay(t, fixture(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("\n got %+v\nwant %+v", *got, want)
			}
		})
	}
}

func TestStopReasons(t *testing.T) {
	for reason, want := range map[string]model.Stop{
		"end_turn": model.StopEnd, "stop_sequence": model.StopEnd, "max_tokens": model.StopLength, "refusal": model.StopRefusal,
		"pause_turn": model.StopLength, "model_context_window_exceeded": model.StopLength, "something_new": model.StopEnd,
		"tool_use": model.StopEnd, // the reply has no call
	} {
		got, err := replay(t, strings.Replace(fixture(t, "text.sse"), `"end_turn"`, `"`+reason+`"`, 1))
		if err != nil || got.Stop != want {
			t.Errorf("%s: %+v, %v", reason, got, err)
		}
	}
}

// Cache marks are at the ends of the system prompt, the tools and the last two
// user messages.
func TestCacheMarks(t *testing.T) {
	s := modeltest.NewAnthropic(t)
	s.Answer(func(int, modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "ok"} })
	m := anthropic.New(anthropic.Config{Name: modeltest.Model, BaseURL: s.URL, Key: modeltest.Key})
	req := model.Request{System: "s", Tools: modeltest.Tools()}
	for i := range 4 {
		if i > 0 {
			req.Messages = append(req.Messages, conversation.Text(conversation.Assistant, "yes"))
		}
		req.Messages = append(req.Messages, conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Text: "a"}, {Text: "b"}}})
		for _, err := range m.Stream(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
		body := string(s.Requests()[i].Body)
		var q struct {
			System, Tools []json.RawMessage
			Messages      []struct{ Content []json.RawMessage }
		}
		if err := json.Unmarshal([]byte(body), &q); err != nil {
			t.Fatal(err)
		}
		marked := func(raw json.RawMessage) bool {
			return strings.Contains(string(raw), `"cache_control":{"type":"ephemeral"}`)
		}
		n := len(q.Messages)
		ok := marked(q.System[0]) && !marked(q.Tools[0]) && marked(q.Tools[1]) && marked(q.Messages[n-1].Content[1]) && !marked(q.Messages[n-1].Content[0])
		if n > 1 {
			ok = ok && marked(q.Messages[n-3].Content[1])
		}
		if want := min(3+i, 4); !ok || strings.Count(body, "cache_control") != want {
			t.Errorf("request %d: %s", i, body)
		}
	}
}

func TestThinkingFitsTheLimit(t *testing.T) {
	s := modeltest.NewAnthropic(t)
	s.Answer(func(int, modeltest.Request) modeltest.Reply { return modeltest.Reply{Text: "ok"} })
	for _, c := range []struct {
		thinking, limit int
		want            string
	}{
		{0, 4000, ""}, {2000, 4000, `"budget_tokens":2000`}, {9000, 4000, `"budget_tokens":3999`},
		{2000, 500, ""}, {-1, 500, `"type":"adaptive"`},
	} {
		m := anthropic.New(anthropic.Config{Name: modeltest.Model, BaseURL: s.URL, Key: modeltest.Key, Thinking: c.thinking})
		req := model.Request{MaxTokens: c.limit, Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}
		for _, err := range m.Stream(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
		}
		all := s.Requests()
		body := string(all[len(all)-1].Body)
		if !strings.Contains(body, c.want) || c.want == "" && strings.Contains(body, "thinking") {
			t.Errorf("%+v: %s", c, body)
		}
	}
}

// FuzzStream checks that any response of a server leads to a reply or an error,
// and never to a panic.
func FuzzStream(f *testing.F) {
	for _, name := range []string{"text.sse", "tool.sse", "thinking.sse"} {
		f.Add([]byte(fixture(f, name)))
	}
	f.Add([]byte("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n"))
	f.Add([]byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":-9223372036854775808,\"delta\":null}\n\n"))
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	f.Cleanup(s.Close)
	m := anthropic.New(anthropic.Config{Name: "x", BaseURL: s.URL, Key: "k"})
	req := model.Request{Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		modeltest.Hostile(t, m, req, 2*time.Minute)
	})
}

func TestHostileServerIsBounded(t *testing.T) {
	event := func(data string) string { return "event: content_block_delta\ndata: " + data + "\n\n" }
	modeltest.Bounds(t, modeltest.Format{
		Text: func(piece string) string {
			return event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + piece + `"}}`)
		},
		Args: func(piece string) string {
			return event(`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"` + piece + `"}}`)
		},
		Call: func(i int) string {
			return "event: content_block_start\ndata: " + fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"toolu_%08d","name":"Shell","input":{}}}`, i, i) + "\n\n"
		},
		Values: func(n int) string {
			return event(`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"Shell","input":[{}` + strings.Repeat(",{}", n-1) + "]}}")
		},
	}, func(_ *testing.T, url string) model.Model {
		return anthropic.New(anthropic.Config{Name: "x", BaseURL: url, Key: "k"})
	})
}
