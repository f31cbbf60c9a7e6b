package openai_test

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
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/model/openai"
	"aloft/internal/conversation"
)

// replay sends a request to a server that replies with a recorded stream.
func replay(t *testing.T, api openai.API, raw string) (*model.Reply, error) {
	t.Helper()
	start := modeltest.NewResponses
	if api == openai.Chat {
		start = modeltest.NewChat
	}
	m := open(api)(t, start(t, modeltest.Reply{Raw: raw}).URL, modeltest.Key, modeltest.Model)
	for ev, err := range m.Stream(t.Context(), hi) {
		if err != nil || ev.Done != nil {
			return ev.Done, err
		}
	}
	t.Fatal("no reply and no error")
	return nil, nil
}

var hi = model.Request{Messages: []conversation.Message{conversation.Text(conversation.User, "hi")}}

func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func toolCall(id, name, args string) conversation.Block {
	return conversation.Block{Call: &conversation.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}}
}

func thought(text string) conversation.Block {
	return conversation.Block{Thinking: &conversation.Thinking{Text: text, Provider: "openai-chat", Model: modeltest.Model}}
}

func message(blocks ...conversation.Block) conversation.Message {
	return conversation.Message{Role: conversation.Assistant, Blocks: blocks}
}

func TestPublishedStreams(t *testing.T) {
	for _, c := range []struct {
		name string
		api  openai.API
		want model.Reply
	}{
		{"chat_tools.sse", openai.Chat, model.Reply{
			Message: message(toolCall("call_DdmO9pD3xa9XTPNJ32zg2hcA", "get_weather", `{"location":"Paris"}`),
				toolCall("call_ABCDEFGH12345678ijklmnop", "get_time", "{}")),
			Stop: model.StopCalls, Usage: conversation.Usage{Input: 58, Output: 17, CacheRead: 1024}}},
		{"ollama.sse", openai.Chat, model.Reply{ // complete calls, all with index 0; "stop"; no usage
			Message: message(thought("Two files."), toolCall("call_4wd1o0nq", "Read", `{"path":"a"}`), toolCall("call_9xk2b7aa", "Read", `{"path":"b"}`)),
			Stop:    model.StopCalls}},
		{"llamacpp.sse", openai.Chat, model.Reply{ // no id, no [DONE]
			Message: message(thought("Hm."), toolCall("made", "Read", `{"path":"a"}`)),
			Stop:    model.StopCalls}},
		{"responses.sse", openai.Responses, model.Reply{
			Message: message(conversation.Block{Thinking: &conversation.Thinking{Text: "One.\n\nTwo.", Provider: "openai", Model: modeltest.Model,
				Opaque: `{"id":"rs_67cb","encrypted":"gAAAAABo","summary":["One.","Two."]}`}},
				conversation.Block{Text: "Hi"}, toolCall("call_bzDnCYJf0ffpdnpJMXKq", "get_weather", `{"location":"Paris"}`)),
			Stop: model.StopCalls, Usage: conversation.Usage{Input: 44, Output: 20, CacheRead: 256}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := replay(t, c.api, fixture(t, c.name))
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range got.Message.Blocks {
				if w := c.want.Message.Blocks; b.Call != nil && i < len(w) && w[i].Call != nil && w[i].Call.ID == "made" && len(b.Call.ID) > 20 {
					b.Call.ID = "made"
				}
			}
			if !reflect.DeepEqual(*got, c.want) {
				g, _ := json.Marshal(got)
				w, _ := json.Marshal(c.want)
				t.Errorf("\n got %s\nwant %s", g, w)
			}
		})
	}
}

func TestWhatChatServersMakeOfIt(t *testing.T) {
	chunk := func(delta, finish string) string {
		return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
	}
	end := chunk(`{}`, `"stop"`)
	for _, c := range []struct {
		name, raw string
		stop      model.Stop
		calls     []string // name and arguments
		reason    model.Reason
	}{
		{"CallsWithoutIdsOneAfterTheOther", chunk(`{"tool_calls":[{"function":{"name":"Read","arguments":"{\"a\":1}"}},{"function":{"name":"Read","arguments":"{\"a\":2}"}}]}`, "null") + end,
			model.StopCalls, []string{`Read {"a":1}`, `Read {"a":2}`}, ""},
		{"NameAndIdInEveryPiece", chunk(`{"tool_calls":[{"index":0,"id":"call_12345","function":{"name":"Read","arguments":"{\"a\""}}]}`, "null") +
			chunk(`{"tool_calls":[{"index":0,"id":"call_12345","function":{"name":"Read","arguments":":1}"}}]}`, "null") + end,
			model.StopCalls, []string{`Read {"a":1}`}, ""},
		{"ArgumentsAsAnObject", chunk(`{"tool_calls":[{"index":0,"id":"call_12345","function":{"name":"Read","arguments":{"a":1}}}]}`, "null") + end,
			model.StopCalls, []string{`Read {"a":1}`}, ""},
		{"ArgumentsThatAreNoJSON", chunk(`{"tool_calls":[{"index":0,"id":"call_12345","function":{"name":"Read","arguments":"{\"a\":"}}]}`, "null") + chunk(`{}`, `"length"`),
			model.StopLength, []string{`Read "{\"a\":"`}, ""},
		{"ContentFilter", chunk(`{"content":"x"}`, `"content_filter"`), model.StopRefusal, nil, ""},
		{"MadeUpReason", chunk(`{"content":"x"}`, `"eos"`), model.StopEnd, nil, ""},
		{"AnotherChoice", `data: {"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"name":"Read","arguments":"{}"}}]}}]}` + "\n\n" + end, model.StopEnd, nil, ""},
		{"NoReason", chunk(`{"content":"x"}`, "null") + "data: [DONE]\n\n", "", nil, model.Cut},
		{"AnErrorObject", `data: {"error":{"message":"busy","type":"server_error","code":503}}` + "\n\n", "", nil, model.Overloaded},
		{"NotJSON", "data: {oops\n\n", "", nil, model.Cut},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := replay(t, openai.Chat, c.raw)
			if c.reason != "" {
				if model.ReasonOf(err) != c.reason {
					t.Errorf("%v, want %s", err, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var calls []string
			for _, call := range got.Message.Calls() {
				calls = append(calls, call.Name+" "+string(call.Args))
			}
			if got.Stop != c.stop || !reflect.DeepEqual(calls, c.calls) {
				t.Errorf("stop %q, calls %q", got.Stop, calls)
			}
		})
	}
}

func TestHowResponsesEnd(t *testing.T) {
	whole := fixture(t, "responses.sse")
	last := strings.Index(whole, "event: response.completed")
	for name, c := range map[string]struct {
		event  string
		stop   model.Stop
		reason model.Reason
	}{
		"length": {`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`, model.StopLength, ""},
		"filter": {`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`, model.StopRefusal, ""},
		"failed": {`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"The model failed"}}}`, "", model.Overloaded},
		"limit":  {`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`, "", model.RateLimited},
		"error":  {`{"type":"error","code":"context_length_exceeded","message":"too long","param":null}`, "", model.TooLong},
		"cut":    {`{"type":"response.in_progress"}`, "", model.Cut},
	} {
		got, err := replay(t, openai.Responses, whole[:last]+"data: "+c.event+"\n\n")
		if model.ReasonOf(err) != c.reason || err == nil && got.Stop != c.stop {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A local server needs no key, and must not get the key in the host's
// environment.
func TestWithoutKey(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-host")
	t.Setenv("OPENAI_BASE_URL", "http://elsewhere.invalid")
	for _, api := range []openai.API{openai.Chat, openai.Responses} {
		var header http.Header
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			header = r.Header
			w.WriteHeader(http.StatusTeapot)
		}))
		m, err := openai.New(openai.Config{Name: "x", API: api, BaseURL: s.URL + "/v1"})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range m.Stream(t.Context(), hi) {
			if model.ReasonOf(err) != model.BadRequest {
				t.Error(err)
			}
		}
		s.Close()
		if _, ok := header["Authorization"]; header == nil || ok {
			t.Errorf("%s: header %v", api, header)
		}
	}
}

func fuzz(f *testing.F, api openai.API) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"function\":{\"arguments\":[]}}]},\"finish_reason\":7}]}\n\n"))
	f.Add([]byte("data: {\"type\":\"response.output_item.done\",\"output_index\":-5,\"item\":{\"type\":\"function_call\",\"arguments\":{}}}\n\n"))
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	f.Cleanup(s.Close)
	m, err := openai.New(openai.Config{Name: "x", API: api, BaseURL: s.URL})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		modeltest.Hostile(t, m, hi, 2*time.Minute)
	})
}

// FuzzChat checks that any response of a server leads to a reply or an error,
// and never to a panic.
func FuzzChat(f *testing.F) {
	for _, name := range []string{"chat_tools.sse", "ollama.sse", "llamacpp.sse"} {
		f.Add([]byte(fixture(f, name)))
	}
	fuzz(f, openai.Chat)
}

func FuzzResponses(f *testing.F) {
	f.Add([]byte(fixture(f, "responses.sse")))
	fuzz(f, openai.Responses)
}

func TestHostileServerIsBounded(t *testing.T) {
	open := func(api openai.API) func(t *testing.T, url string) model.Model {
		return func(t *testing.T, url string) model.Model {
			m, err := openai.New(openai.Config{Name: "x", API: api, BaseURL: url})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Run("Chat", func(t *testing.T) {
		delta := func(fields string) string { return `data: {"choices":[{"index":0,"delta":{` + fields + "}}]}\n\n" }
		modeltest.Bounds(t, modeltest.Format{
			Text: func(piece string) string { return delta(`"content":"` + piece + `"`) },
			Args: func(piece string) string {
				return delta(`"tool_calls":[{"index":0,"function":{"arguments":"` + piece + `"}}]`)
			},
			Call: func(i int) string {
				return delta(fmt.Sprintf(`"tool_calls":[{"index":%d,"id":"call_%08d","function":{"name":"Shell","arguments":""}}]`, i, i))
			},
			Values: func(n int) string { return delta(`"tool_calls":[{}` + strings.Repeat(",{}", n-1) + "]") },
		}, open(openai.Chat))
	})
	t.Run("Responses", func(t *testing.T) {
		event := func(kind, fields string) string { return `data: {"type":"` + kind + `",` + fields + "}\n\n" }
		modeltest.Bounds(t, modeltest.Format{
			Text: func(piece string) string {
				return event("response.output_text.delta", `"output_index":0,"delta":"`+piece+`"`)
			},
			Args: func(piece string) string {
				return event("response.function_call_arguments.delta", `"output_index":0,"delta":"`+piece+`"`)
			},
			Call: func(i int) string {
				return event("response.output_item.added", fmt.Sprintf(`"output_index":%d,"item":{"type":"function_call","call_id":"call_%08d","name":"Shell","arguments":""}`, i, i))
			},
			Values: func(n int) string {
				return event("response.output_item.done", `"item":{"type":"reasoning","encrypted_content":"x","summary":[{}`+strings.Repeat(",{}", n-1)+"]}")
			},
		}, open(openai.Responses))
	})
}
