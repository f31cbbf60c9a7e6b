package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Provider describes a provider to [Run].
type Provider struct {
	Start func(t testing.TB, script ...Reply) *Server
	New   func(t testing.TB, url, key, name string) model.Model
	// KeepsThinking means that later requests return earlier reasoning to the provider.
	KeepsThinking bool
}

// Tools returns the tools in the suite's requests.
func Tools() []tool.Spec {
	schema := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)
	return []tool.Spec{
		{Name: "Read", Description: "reads a file", Schema: schema},
		{Name: "Shell", Description: "runs a command", Schema: schema},
	}
}

// Pixel is a GIF of one pixel.
var Pixel = conversation.Image{MediaType: "image/gif", Data: []byte(
	"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\xff\xff\x00\x00\x00!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;")}

func ask(words string) model.Request {
	return model.Request{System: "You are a test.", Messages: []conversation.Message{conversation.Text(conversation.User, words)},
		Tools: Tools(), MaxTokens: 4096}
}

// result is the outcome of a stream.
type result struct {
	text, thinking string
	args           map[string]string // by call id
	blocks         map[string]int    // by call id
	reply          *model.Reply
	err            error
}

// collect reads a stream to its end, and fails the test if the stream violates
// the contract of [model.Model].
func collect(t *testing.T, m model.Model, req model.Request) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r := result{args: map[string]string{}, blocks: map[string]int{}}
	for ev, err := range m.Stream(ctx, req) {
		if r.reply != nil || r.err != nil {
			t.Fatalf("something came after the end: %+v, %v", ev, err)
		}
		if err != nil {
			r.err = err
			if model.ReasonOf(err) == "" {
				t.Fatalf("an error that is not the provider's: %v", err)
			}
			continue
		}
		switch {
		case ev.Text != "":
			r.text += ev.Text
		case ev.Thinking != "":
			r.thinking += ev.Thinking
		case ev.Args != nil:
			r.args[ev.Args.CallID] += ev.Args.JSON
			r.blocks[ev.Args.CallID] = ev.Args.Block
		case ev.Done != nil:
			r.reply = ev.Done
		default:
			t.Fatal("an event without anything")
		}
	}
	if r.reply == nil && r.err == nil {
		t.Fatal("the stream ended without a reply and without an error")
	}
	return r
}

func replied(t *testing.T, m model.Model, req model.Request) result {
	t.Helper()
	r := collect(t, m, req)
	if r.err != nil {
		t.Fatalf("stream: %v", r.err)
	}
	return r
}

// Run checks a provider against the contract of [model.Model].
func Run(t *testing.T, p Provider) {
	open := func(t *testing.T, script ...Reply) (*Server, model.Model) {
		s := p.Start(t, script...)
		return s, p.New(t, s.URL, Key, Model)
	}
	t.Run("Replies", func(t *testing.T) { runReplies(t, open) })
	t.Run("Thinking", func(t *testing.T) { runThinking(t, p, open) })
	t.Run("Failures", func(t *testing.T) { runFailures(t, p, open) })
	t.Run("Stopping", func(t *testing.T) { runStopping(t, open) })
	t.Run("Cache", func(t *testing.T) { runCache(t, open) })
}

type opener func(t *testing.T, script ...Reply) (*Server, model.Model)

func runReplies(t *testing.T, open opener) {
	t.Run("TextComesInPiecesAndWhole", func(t *testing.T) {
		const text = "Hello, I am here to help you with your code."
		_, m := open(t, Reply{Text: text, Usage: conversation.Usage{Input: 7, Output: 5, CacheRead: 11}})
		r := replied(t, m, ask("hello"))
		if r.text != text || r.reply.Message.PlainText() != text || r.reply.Message.Role != conversation.Assistant {
			t.Errorf("pieces %q, whole %+v", r.text, r.reply.Message)
		}
		if r.reply.Stop != model.StopEnd {
			t.Errorf("stop %q", r.reply.Stop)
		}
		if want := (conversation.Usage{Input: 7, Output: 5, CacheRead: 11}); r.reply.Usage != want {
			t.Errorf("usage %+v, want %+v", r.reply.Usage, want)
		}
	})
	t.Run("UnicodeOverTheBordersOfPieces", func(t *testing.T) {
		const text = "Grüße, 世界 👩‍👩‍👧‍👦 — \"quoted\" \\ \u2028 end"
		for _, size := range []int{1, 2, 3, 7} {
			_, m := open(t, Reply{Text: text, Chunk: 1, Bytes: size})
			if r := replied(t, m, ask("hello")); r.text != text {
				t.Errorf("in pieces of %d bytes: %q", size, r.text)
			}
		}
	})
	t.Run("OneCallAndItsResult", func(t *testing.T) {
		const args = `{"path":"a/ünï \"q\".go"}`
		s, m := open(t, Reply{Text: "Let me look.", Calls: []Call{{Name: "Read", Args: args}}}, Reply{Text: "It is empty."})
		req := ask("read a.go")
		r := replied(t, m, req)
		calls := r.reply.Message.Calls()
		if len(calls) != 1 || calls[0].Name != "Read" || r.reply.Stop != model.StopCalls {
			t.Fatalf("calls %+v, stop %q", calls, r.reply.Stop)
		}
		sameJSON(t, string(calls[0].Args), args)
		sameJSON(t, r.args[calls[0].ID], args)
		if n := r.blocks[calls[0].ID]; r.reply.Message.Blocks[n].Call == nil {
			t.Errorf("the call was said to become block %d of %+v", n, r.reply.Message.Blocks)
		}
		req.Messages = append(req.Messages, r.reply.Message, answers(r.reply.Message, "", false))
		if r := replied(t, m, req); r.text != "It is empty." {
			t.Errorf("second reply %q", r.text)
		}
		if n := len(s.Requests()); n != 2 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("TwoCallsAtOnce", func(t *testing.T) {
		_, m := open(t, Reply{Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}, {Name: "Shell", Args: `{"path":"b"}`}}}, Reply{Text: "ok"})
		req := ask("both")
		r := replied(t, m, req)
		calls := r.reply.Message.Calls()
		if len(calls) != 2 || calls[0].Name != "Read" || calls[1].Name != "Shell" || calls[0].ID == calls[1].ID {
			t.Fatalf("calls %+v", calls)
		}
		req.Messages = append(req.Messages, r.reply.Message, answers(r.reply.Message, "failed: no such file", true))
		replied(t, m, req)
	})
	t.Run("ACallWithoutArguments", func(t *testing.T) {
		_, m := open(t, Reply{Calls: []Call{{Name: "Read", Args: `{}`}}})
		if c := replied(t, m, ask("x")).reply.Message.Calls(); len(c) != 1 || string(c[0].Args) != "{}" {
			t.Errorf("calls %+v", c)
		}
	})
	t.Run("ThinkingOfAnotherProviderIsLeftOut", func(t *testing.T) {
		s, m := open(t, Reply{Text: "ok"})
		req := ask("hello")
		req.Messages = append(req.Messages, conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
			{Thinking: &conversation.Thinking{Text: "foreign thought", Provider: "elsewhere", Opaque: "x"}}, {Text: "hi"}, {Text: " \n"}}},
			conversation.Text(conversation.User, "go on"))
		replied(t, m, req)
		if strings.Contains(string(s.Requests()[0].Body), "foreign") {
			t.Error("foreign reasoning was sent")
		}
	})
	t.Run("ASchemaForTheReply", func(t *testing.T) {
		s, m := open(t, Reply{Text: `{"title":"x"}`})
		req := ask("give it a title")
		req.Tools, req.Schema = nil, json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}},"required":["title"],"additionalProperties":false}`)
		replied(t, m, req)
		if body := string(s.Requests()[0].Body); !strings.Contains(body, `"additionalProperties":false`) {
			t.Errorf("the schema was not sent: %s", body)
		}
	})
	t.Run("ImagesOfTheUserAndOfTools", func(t *testing.T) {
		s, m := open(t, Reply{Calls: []Call{{Name: "Read", Args: `{"path":"a.gif"}`}}}, Reply{Text: "a pixel"})
		req := ask("what is this?")
		img := Pixel
		req.Messages[0].Blocks = append(req.Messages[0].Blocks, conversation.Block{Image: &img})
		r := replied(t, m, req)
		back := answers(r.reply.Message, "", false)
		back.Blocks[0].Result.Images = []conversation.Image{Pixel}
		req.Messages = append(req.Messages, r.reply.Message, back)
		replied(t, m, req)
		if n := strings.Count(string(s.Requests()[1].Body), "R0lGODlh"); n != 2 {
			t.Errorf("%d images were sent, want 2", n)
		}
	})
	t.Run("RefusalIsAReply", func(t *testing.T) {
		_, m := open(t, Reply{Text: "I cannot help with that.", Refuse: true})
		if r := replied(t, m, ask("bad")); r.reply.Stop != model.StopRefusal {
			t.Errorf("stop %q", r.reply.Stop)
		}
	})
	t.Run("LengthIsAStop", func(t *testing.T) {
		_, m := open(t, Reply{Text: "and so on and", Full: true})
		if r := replied(t, m, ask("long")); r.reply.Stop != model.StopLength {
			t.Errorf("stop %q", r.reply.Stop)
		}
	})
	t.Run("AnEmptyReply", func(t *testing.T) {
		_, m := open(t, Reply{})
		if r := replied(t, m, ask("nothing")); len(r.reply.Message.Blocks) != 0 || r.reply.Stop != model.StopEnd {
			t.Errorf("reply %+v", r.reply)
		}
	})
	t.Run("WithoutSystemToolsOrLimit", func(t *testing.T) {
		_, m := open(t, Reply{Text: "ok"})
		replied(t, m, model.Request{Messages: ask("hello").Messages})
	})
	t.Run("AForeignConversationIsMended", func(t *testing.T) {
		_, m := open(t, Reply{Text: "ok"})
		req := ask("one")
		req.Messages = append(req.Messages, conversation.Text(conversation.User, "two"),
			conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{
				{Call: &conversation.ToolCall{ID: "functions.Read:0 " + strings.Repeat("x", 80), Name: "Read", Args: json.RawMessage(`"{\"path\":"`)}}}},
			conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Text: "also this"},
				{Result: &conversation.ToolResult{CallID: "functions.Read:0 " + strings.Repeat("x", 80), Text: "bad \xff arguments", Error: true}},
				{Result: &conversation.ToolResult{CallID: "nobody", Text: "orphan"}}}})
		// Gemini requires a signature with each call. A placeholder is sent for
		// another provider's call.
		replied(t, m, req)
	})
}

func runFailures(t *testing.T, p Provider, open opener) {
	fails := func(t *testing.T, m model.Model, want model.Reason) *model.Error {
		t.Helper()
		r := collect(t, m, ask("hello"))
		e, ok := errors.AsType[*model.Error](r.err)
		if !ok || e.Reason != want {
			t.Fatalf("error %v, want reason %q", r.err, want)
		}
		return e
	}
	status := func(code int, words string, h http.Header) Reply {
		return Reply{Status: code, Message: words, Header: h}
	}
	t.Run("RateLimitSaysWhenToComeBack", func(t *testing.T) {
		_, m := open(t, status(429, "slow down", http.Header{"Retry-After": {"7"}}))
		e := fails(t, m, model.RateLimited)
		if e.RetryAfter != 7*time.Second || e.Status != 429 || !strings.Contains(e.Message, "slow down") || !e.Temporary() {
			t.Errorf("%+v", e)
		}
	})
	for _, code := range []int{500, 502, 503, 529} {
		t.Run("Overloaded"+http.StatusText(code), func(t *testing.T) {
			_, m := open(t, status(code, "too busy", nil))
			if e := fails(t, m, model.Overloaded); !e.Temporary() {
				t.Errorf("%+v", e)
			}
		})
	}
	t.Run("ItAsksOnce", func(t *testing.T) {
		s, m := open(t, status(529, "busy", http.Header{"X-Should-Retry": {"true"}}))
		fails(t, m, model.Overloaded)
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
	t.Run("AWrongKeyIsNotRepeated", func(t *testing.T) {
		const wrong = "sk-wrong-987654321"
		s := p.Start(t)
		e := fails(t, p.New(t, s.URL, wrong, Model), model.Unauthorized)
		if e.Temporary() || strings.Contains(e.Error(), wrong) {
			t.Errorf("%v", e)
		}
	})
	t.Run("AnUnknownModel", func(t *testing.T) {
		s := p.Start(t)
		fails(t, p.New(t, s.URL, Key, "no-such-model"), model.NotFound)
	})
	t.Run("AConversationThatDoesNotFit", func(t *testing.T) {
		for _, words := range []string{
			"prompt is too long: 210000 tokens > 200000 maximum",
			"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length; exceeds the context",
			"This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
			"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
			"the request exceeds the available context size, try increasing it: exceed_context_size_error",
		} {
			_, m := open(t, status(400, words, nil))
			fails(t, m, model.TooLong)
		}
	})
	t.Run("ABadRequest", func(t *testing.T) {
		_, m := open(t, status(400, "temperature: out of range", nil))
		if e := fails(t, m, model.BadRequest); e.Temporary() {
			t.Errorf("%v is temporary", e)
		}
	})
	t.Run("ACutStream", func(t *testing.T) {
		_, m := open(t, Reply{Text: "This will never be said to the end.", Cut: true})
		fails(t, m, model.Cut)
	})
	t.Run("AnErrorWithinTheStream", func(t *testing.T) {
		_, m := open(t, Reply{Text: "This will never be said to the end.", Break: "overloaded_error"})
		if e := fails(t, m, model.Overloaded); !strings.Contains(e.Message, "it broke") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("AStreamThatEndsTooSoon", func(t *testing.T) {
		_, m := open(t, Reply{Raw: ": nothing\n\n"})
		fails(t, m, model.Cut)
	})
	t.Run("AWebPage", func(t *testing.T) {
		h := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<html>Sign in</html>"))
		})
		fails(t, p.New(t, h, Key, Model), model.BadReply)
	})
	t.Run("ARedirectIsNotFollowed", func(t *testing.T) {
		s := p.Start(t)
		h := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, s.URL+r.URL.Path, http.StatusTemporaryRedirect)
		})
		fails(t, p.New(t, h, Key, Model), model.BadRequest)
		if len(s.Requests()) != 0 {
			t.Error("the key went along")
		}
	})
	t.Run("AServerThatSaysTheKeyBack", func(t *testing.T) {
		for _, code := range []int{400, 401, 403, 404, 429, 500} {
			h := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(code)
				for _, v := range r.Header {
					_, _ = w.Write([]byte(strings.Join(v, " ") + " "))
				}
			})
			r := collect(t, p.New(t, h, Key, Model), ask("hello"))
			for err := r.err; err != nil; err = errors.Unwrap(err) {
				if strings.Contains(err.Error(), Key) {
					t.Fatalf("HTTP %d: the key is in %q", code, err)
				}
			}
		}
		_, m := open(t, Reply{Text: "This will never be said.", Break: "bad key " + Key})
		if r := collect(t, m, ask("hello")); r.err == nil || strings.Contains(r.err.Error(), Key) {
			t.Fatalf("within the stream: %v", r.err)
		}
	})
	t.Run("NobodyListens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		begun := time.Now()
		e := fails(t, p.New(t, "http://"+l.Addr().String(), Key, Model), model.Unreachable)
		if !e.Temporary() || time.Since(begun) > time.Minute {
			t.Errorf("%v after %v", e, time.Since(begun))
		}
	})
	t.Run("AnInvalidRequestIsNotSent", func(t *testing.T) {
		s, m := open(t)
		req := ask("x")
		req.Tools = append(req.Tools, req.Tools[0])
		if r := collect(t, m, req); model.ReasonOf(r.err) != model.BadRequest || len(s.Requests()) != 0 {
			t.Errorf("%v", r.err)
		}
	})
}

func runStopping(t *testing.T, open opener) {
	long := Reply{Text: strings.Repeat("word ", 100)}
	gone := func(t *testing.T, s *Server) {
		t.Helper()
		select {
		case <-s.Aborted:
		case <-time.After(2 * time.Minute):
			t.Fatal("the request goes on")
		}
	}
	t.Run("EndingTheContextEndsTheRequest", func(t *testing.T) {
		held := long
		held.Hold = make(chan struct{})
		s, m := open(t, held)
		why := errors.New("the user said so")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var last error
		for _, err := range m.Stream(ctx, ask("x")) {
			last = err
			cancel(why)
		}
		if !errors.Is(last, why) {
			t.Errorf("error %v, want the cause", last)
		}
		gone(t, s)
	})
	t.Run("BreakingOffEndsTheRequest", func(t *testing.T) {
		held := long
		held.Hold = make(chan struct{})
		s, m := open(t, held)
		for _, err := range m.Stream(t.Context(), ask("x")) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		gone(t, s)
	})
	t.Run("AContextThatHasEndedSendsNothing", func(t *testing.T) {
		s, m := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range m.Stream(ctx, ask("x")) {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
		if len(s.Requests()) != 0 {
			t.Error("it was asked")
		}
	})
	t.Run("ManyAtOnce", func(t *testing.T) {
		s, m := open(t)
		s.Answer(func(int, Request) Reply { return long })
		done := make(chan string)
		for range 16 {
			go func() {
				var text string
				for ev, err := range m.Stream(t.Context(), ask("x")) {
					if err != nil {
						text = err.Error()
						break
					}
					text += ev.Text
				}
				done <- text
			}()
		}
		for range 16 {
			if text := <-done; text != long.Text {
				t.Errorf("%.80q", text)
			}
		}
	})
}

// answers returns the user's message with a result for every call of m.
func answers(m conversation.Message, text string, failed bool) conversation.Message {
	out := conversation.Message{Role: conversation.User}
	for _, c := range m.Calls() {
		out.Blocks = append(out.Blocks, conversation.Block{Result: &conversation.ToolResult{CallID: c.ID, Text: text, Error: failed}})
	}
	return out
}

func sameJSON(t *testing.T, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Errorf("%q: %v", got, err)
		return
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatal(err)
	}
	gb, _ := json.Marshal(g)
	wb, _ := json.Marshal(w)
	if string(gb) != string(wb) {
		t.Errorf("%s, want %s", gb, wb)
	}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
