// Package modeltest checks providers against the contract of package model.
// [Run] is one suite of conversations for all of them. The servers speak the
// providers' published wire formats, reject what the real servers reject, and
// play a script, so that other tests can run the whole product against them.
package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"aloft/internal/conversation"
)

// The key and the model name that every server accepts. Another key gets 401,
// another model name 404.
const (
	Key    = "sk-test-0123456789abcdef"
	Model  = "test-model-1"
	Second = "test-model-2"
)

// Reply is one response of a [Server]: a reply, or a failure if Status is set.
type Reply struct {
	Thinking string
	Redacted string // Messages API: encrypted reasoning, sent after Thinking
	Text     string
	Calls    []Call
	Refuse   bool               // whether the model declines to answer; Text is its reason
	Full     bool               // whether the reply has reached its maximum length
	Usage    conversation.Usage // the zero value means some tokens

	Chunk int           // runes per delta; 0 means 12
	Bytes int           // bytes per write of the stream, to split runes and lines; 0 means one event per write
	Cut   bool          // whether the connection breaks in the middle of the stream
	Hold  chan struct{} // in the middle of the stream, the server waits until this is closed or the client has disconnected
	Break string        // in the middle of the stream, the provider reports an error of this type
	Raw   string        // replaces the whole body of the stream

	Status  int // HTTP status of a failure
	Header  http.Header
	Message string // message of a failure
	Kind    string // the provider's type of the failure; "" derives it from Status
}

// Call is a tool call in a [Reply].
type Call struct {
	ID   string // "" lets the server choose one
	Name string
	Args string // a JSON object
}

// Request is a request that a server received.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Server is a fake of a provider's API on this host. Its methods are safe for
// concurrent use.
type Server struct {
	URL     string        // the base_url in a user's configuration
	Aborted chan struct{} // receives a value for each client that disconnects before a reply's end

	t       testing.TB
	dialect dialect

	mu       sync.Mutex
	requests []Request
	refusals []string
	issued   []Reply
	answer   func(n int, r Request) Reply
}

// A dialect is one provider's wire format.
type dialect struct {
	path    string                    // path after URL; "*" stands for the model
	version string                    // path prefix that is part of URL
	auth    func(h http.Header) error // the server answers an error with 401
	// check validates a request; the server answers an error with 400. issued
	// lists the replies so far.
	check   func(r Request, issued []Reply) (model string, err error)
	problem func(status int, kind, words string) []byte // encodes an error response
	stream  func(n int, r Reply) []string               // events of a reply
	broken  func(kind, words string) string             // an event that reports an error
}

// NewAnthropic starts a server that implements the Messages API. It sends the
// script's replies in order. A request after the last reply fails the test.
func NewAnthropic(t testing.TB, script ...Reply) *Server { return start(t, messagesDialect, script) }

// NewChat starts a server that implements OpenAI's Chat Completions.
func NewChat(t testing.TB, script ...Reply) *Server { return start(t, chatDialect, script) }

// NewResponses starts a server that implements OpenAI's Responses.
func NewResponses(t testing.TB, script ...Reply) *Server { return start(t, responsesDialect, script) }

// NewGoogle starts a server that implements the Gemini API.
func NewGoogle(t testing.TB, script ...Reply) *Server { return start(t, googleDialect, script) }

func start(t testing.TB, d dialect, script []Reply) *Server {
	s := &Server{t: t, dialect: d, Aborted: make(chan struct{}, 64)}
	s.answer = func(n int, _ Request) Reply {
		if n < len(script) {
			return script[n]
		}
		t.Errorf("model server: asked %d times, the script has %d replies", n+1, len(script))
		return Reply{Status: http.StatusBadRequest, Message: "the script is over"}
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL + d.version
	return s
}

// Answer replaces the script with a function. The server calls it for each valid
// request with the request's number, counting from 0.
func (s *Server) Answer(answer func(n int, r Request) Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Requests returns the valid requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Refusals returns the errors of all rejected requests so far.
func (s *Server) Refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refusals...)
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	req := Request{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if status, kind, err := s.refusal(r, req); err != nil {
		s.mu.Lock()
		s.refusals = append(s.refusals, err.Error())
		s.mu.Unlock()
		s.fail(w, Reply{Status: status, Kind: kind, Message: err.Error()})
		return
	}
	s.mu.Lock()
	n := len(s.requests)
	s.requests = append(s.requests, req)
	answer := s.answer
	s.mu.Unlock()
	reply := answer(n, req)
	if reply.Status != 0 {
		s.fail(w, reply)
		return
	}
	s.play(w, r, n, reply)
}

func (s *Server) refusal(r *http.Request, req Request) (status int, kind string, err error) {
	before, after, _ := strings.Cut(s.dialect.version+s.dialect.path, "*")
	if r.Method != http.MethodPost || !strings.HasPrefix(req.Path, before) || !strings.HasSuffix(req.Path, after) {
		return http.StatusNotFound, "", fmt.Errorf("no %s %s here", r.Method, req.Path)
	}
	if err := s.dialect.auth(r.Header); err != nil {
		return http.StatusUnauthorized, "", err
	}
	if r.Header.Get("Content-Type") != "application/json" {
		return http.StatusBadRequest, "", fmt.Errorf("content-type: %q", r.Header.Get("Content-Type"))
	}
	s.mu.Lock()
	issued := append([]Reply(nil), s.issued...)
	s.mu.Unlock()
	name, err := s.dialect.check(req, issued)
	if err != nil {
		return http.StatusBadRequest, "", err
	}
	if name != Model && name != Second {
		return http.StatusNotFound, "", fmt.Errorf("model: %s", name)
	}
	return 0, "", nil
}

func (s *Server) fail(w http.ResponseWriter, r Reply) {
	for k, v := range r.Header {
		w.Header()[k] = v
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, _ = w.Write(s.dialect.problem(r.Status, r.Kind, r.Message))
}

// play writes a reply. A failure occurs in the middle of the reply, between two
// events; a cut occurs within an event.
func (s *Server) play(w http.ResponseWriter, r *http.Request, n int, reply Reply) {
	if reply.Usage == (conversation.Usage{}) {
		reply.Usage = conversation.Usage{Input: 21, Output: 13}
	}
	reply.Calls = append([]Call(nil), reply.Calls...)
	for i := range reply.Calls {
		if reply.Calls[i].ID == "" {
			reply.Calls[i].ID = fmt.Sprintf("call_%06d_%d", n, i)
		}
	}
	s.mu.Lock()
	s.issued = append(s.issued, reply)
	s.mu.Unlock()
	events := []string{reply.Raw}
	if reply.Raw == "" {
		events = s.dialect.stream(n, reply)
	}
	middle := len(events) / 2
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	var wire bytes.Buffer
	send := func(size int) {
		for wire.Len() > 0 {
			piece := wire.Next(max(size, 1))
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
	for i, e := range events {
		if i == middle && reply.Hold != nil {
			send(1 << 20)
			select {
			case <-reply.Hold:
			case <-r.Context().Done():
				s.Aborted <- struct{}{}
				return
			}
		}
		if i == middle && reply.Break != "" {
			wire.WriteString(s.dialect.broken(reply.Break, "it broke"))
			send(1 << 20)
			return
		}
		if i == middle && reply.Cut {
			wire.WriteString(e[:len(e)/2])
			send(1 << 20)
			panic(http.ErrAbortHandler)
		}
		wire.WriteString(e)
		if reply.Bytes == 0 {
			send(1 << 20)
		}
	}
	send(reply.Bytes)
}

// thoughtOf returns the reply that contained the given calls, and whether it
// had reasoning. The calls are matched by name and arguments, since clients may
// change their ids.
func thoughtOf(issued []Reply, calls []Call) (Reply, bool) {
	for _, r := range slices.Backward(issued) {
		if len(calls) > 0 && slices.EqualFunc(r.Calls, calls, func(a, b Call) bool { return a.Name == b.Name && sameObject(a.Args, b.Args) }) {
			return r, r.Thinking+r.Redacted != ""
		}
	}
	return Reply{}, false
}

func sameObject(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// pieces splits text into deltas.
func (r Reply) pieces(text string) []string {
	size := r.Chunk
	if size <= 0 {
		size = 12
	}
	var out []string
	runes := []rune(text)
	for len(runes) > 0 {
		k := min(size, len(runes))
		out = append(out, string(runes[:k]))
		runes = runes[k:]
	}
	return out
}

// event returns a server-sent event.
func event(name string, data any) string {
	b, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("modeltest: %v", err)) // our own maps can always be marshaled
	}
	if name == "" {
		return "data: " + string(b) + "\n\n"
	}
	return "event: " + name + "\ndata: " + string(b) + "\n\n"
}

// object is a JSON object.
type object = map[string]any
