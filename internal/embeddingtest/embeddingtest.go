// Package embeddingtest has a fake of OpenAI's embeddings API, for tests of both
// the control plane and the guest. It refuses what the API refuses.
package embeddingtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// The only model and key that a [Server] accepts. Another key gets 401, another
// model 404.
const (
	Model = "text-embedding-3-small"
	Key   = "sk-embed-0123456789abcdef"
)

// Limits of OpenAI's embeddings API.
const (
	maxInputs      = 2048
	maxInputTokens = 8192
	maxAllTokens   = 300_000
	width          = 1536 // of Model
)

// Server is a fake of OpenAI's embeddings API. The more words two texts
// have in common, the more similar their embeddings are. Its methods are safe
// for concurrent use.
type Server struct {
	URL string // the base_url in a user's configuration

	mu      sync.Mutex
	inputs  []string
	asked   int
	status  int
	after   int
	meaning map[string]string
	edit    func(vectors [][]float32) any
}

// New starts a server that implements OpenAI's embeddings API.
func New(t testing.TB) *Server {
	s := &Server{meaning: map[string]string{}}
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(h.Close)
	s.URL = h.URL + "/v1"
	return s
}

// Synonyms makes words mean the same as the first of them.
func (s *Server) Synonyms(words ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range words {
		s.meaning[strings.ToLower(w)] = strings.ToLower(words[0])
	}
}

// Inputs returns every text for which the server has sent an embedding, and the
// number of valid requests.
func (s *Server) Inputs() (texts []string, requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inputs), s.asked
}

// Forget clears what Inputs returns.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inputs, s.asked = nil, 0
}

// Fail makes the server answer valid requests with a status, after the given
// number of requests; status 0 makes it answer normally again.
func (s *Server) Fail(status, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.after = status, after
}

// Send replaces the replies to valid requests by what edit returns; nil makes
// the server answer normally again.
func (s *Server) Send(edit func(vectors [][]float32) any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.edit = edit
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	status, reply, err := http.StatusOK, any(nil), error(nil)
	texts, encoding, tokens, err := parse(r, body)
	if err == nil {
		s.asked++
		if s.status != 0 && s.asked > s.after {
			err = refusal{s.status, "The server had an error while processing your request."}
		}
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		status, reply = refused.status, object{"error": object{"message": refused.words, "type": "invalid_request_error", "param": nil, "code": nil}}
	} else {
		s.inputs = append(s.inputs, texts...)
		vectors := make([][]float32, len(texts))
		for i, t := range texts {
			vectors[i] = s.vector(t)
		}
		if s.edit != nil {
			reply = s.edit(vectors)
		} else {
			reply = Reply(vectors, encoding, tokens)
		}
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(reply)
}

// Reply returns a reply of the API with the given vectors. encoding is
// float or base64.
func Reply(vectors [][]float32, encoding string, tokens int) any {
	data := make([]object, len(vectors))
	for i, v := range vectors {
		data[i] = object{"object": "embedding", "index": i, "embedding": v}
		if encoding == "base64" {
			var raw []byte
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			data[i]["embedding"] = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return object{"object": "list", "data": data, "model": Model, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}}
}

type object = map[string]any

// refusal is the reply to a request that is rejected.
type refusal struct {
	status int
	words  string
}

func (r refusal) Error() string { return r.words }

// parse returns the texts of a request, the encoding of the reply and
// the number of tokens. The error is a [refusal].
func parse(r *http.Request, body []byte) (texts []string, encoding string, tokens int, err error) {
	refuse := func(status int, format string, args ...any) ([]string, string, int, error) {
		return nil, "", 0, refusal{status, fmt.Sprintf(format, args...)}
	}
	switch {
	case r.Header.Get("Authorization") != "Bearer "+Key:
		return refuse(http.StatusUnauthorized, "Incorrect API key provided. You can find your API key in the settings.")
	case r.URL.Path != "/v1/embeddings":
		return refuse(http.StatusNotFound, "Invalid URL (%s %s)", r.Method, r.URL.Path)
	case r.Method != http.MethodPost:
		return refuse(http.StatusMethodNotAllowed, "Not allowed to %s on /v1/embeddings.", r.Method)
	case r.Header.Get("Content-Type") != "application/json":
		return refuse(http.StatusUnsupportedMediaType, "Unsupported 'content-type'.")
	}
	var q struct {
		Model          string          `json:"model"`
		Input          json.RawMessage `json:"input"`
		EncodingFormat string          `json:"encoding_format"`
		User           string          `json:"user"`
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return refuse(http.StatusBadRequest, "Unrecognized request argument supplied: %v", err)
	}
	var one string
	if json.Unmarshal(q.Input, &one) == nil {
		texts = []string{one}
	} else if json.Unmarshal(q.Input, &texts) != nil {
		return refuse(http.StatusBadRequest, "'$.input' is invalid.")
	}
	switch {
	case q.Model == "":
		return refuse(http.StatusBadRequest, "you must provide a model parameter")
	case q.Model != Model:
		return refuse(http.StatusNotFound, "The model `%s` does not exist or you do not have access to it.", q.Model)
	case q.EncodingFormat != "" && q.EncodingFormat != "float" && q.EncodingFormat != "base64":
		return refuse(http.StatusBadRequest, "'%s' is not one of ['float', 'base64'] - 'encoding_format'", q.EncodingFormat)
	case len(texts) == 0 || len(texts) > maxInputs:
		return refuse(http.StatusBadRequest, "'$.input' is invalid: it has %d items.", len(texts))
	}
	for _, t := range texts {
		n := (len(t) + 3) / 4
		switch tokens += n; {
		case t == "":
			return refuse(http.StatusBadRequest, "'$.input' is invalid: input cannot be an empty string.")
		case n > maxInputTokens:
			return refuse(http.StatusBadRequest, "This model's maximum context length is %d tokens, however you requested %d tokens.", maxInputTokens, n)
		}
	}
	if tokens > maxAllTokens {
		return refuse(http.StatusBadRequest, "Requested %d tokens, max %d tokens per request", tokens, maxAllTokens)
	}
	if q.EncodingFormat == "" {
		q.EncodingFormat = "float"
	}
	return texts, q.EncodingFormat, tokens, nil
}

// vector returns the embedding of a text, of length 1: each word adds a fixed
// direction.
func (s *Server) vector(text string) []float32 {
	sum := make([]float64, width)
	sum[0] = 0.1 // a text without words has a direction too
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) }) {
		if m := s.meaning[word]; m != "" {
			word = m
		}
		for i, b := range sha256.Sum256([]byte(word)) {
			sum[i*width/sha256.Size+int(b&7)] += float64(b>>7)*2 - 1
		}
	}
	length := 0.0
	for _, x := range sum {
		length += x * x
	}
	out := make([]float32, len(sum))
	for i, x := range sum {
		out[i] = float32(x / math.Sqrt(length))
	}
	return out
}
