// Package embed computes the embeddings of machines' code search with the model
// that the operator has configured, so that the model's key never enters a
// machine. A machine sends requests in the format of OpenAI's POST /v1/embeddings
// over its connection to the control plane.
//
// Requests from a machine are untrusted: their size, number and rate are
// limited, and known secrets in their texts are redacted.
package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"aloft/internal/control/model"
)

// Limits for the machine of one agent.
const (
	maxRequest  = 1 << 20 // bytes of a request; JSON may escape a byte as six
	maxAtOnce   = 4       // concurrent requests
	bodyTime    = 30 * time.Second
	answerTime  = 60 * time.Second
	dailyBytes  = 32 << 20 // bytes of text a day, about 10 million tokens, all of which may be used at once
	keptBudgets = 1000     // number of agents above which full budgets are forgotten
)

// Relay computes embeddings for machines. Its methods are safe for concurrent
// use.
type Relay struct {
	model model.Embedder
	name  string
	count func(ctx context.Context, tokens int64)

	mu      sync.Mutex
	budgets map[string]*rate.Limiter // by agent, in bytes
}

// New returns a relay to a model. name is the model's name, which machines must
// use. count, if not nil, is called with the number of tokens of each request.
func New(m model.Embedder, name string, count func(ctx context.Context, tokens int64)) *Relay {
	return &Relay{model: m, name: name, count: count, budgets: map[string]*rate.Limiter{}}
}

// Name returns the name of the model.
func (r *Relay) Name() string { return r.name }

// Handler returns the handler for the machine of one agent. hide redacts
// secrets in a text.
func (r *Relay) Handler(agentID string, hide func(string) string) http.Handler {
	slots := make(chan struct{}, maxAtOnce)
	routes := http.NewServeMux()
	routes.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, req *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			refuse(w, http.StatusTooManyRequests, "more than %d requests at once", maxAtOnce)
			return
		}
		r.serve(w, req, agentID, hide)
	})
	return routes
}

func (r *Relay) serve(w http.ResponseWriter, req *http.Request, agentID string, hide func(string) string) {
	// ignore the error: a connection without deadlines is limited by the machine's number of streams
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, "the request has more than %d bytes, or took too long", maxRequest)
		return
	}
	texts, size, err := r.parse(body)
	if err != nil {
		refuse(w, http.StatusBadRequest, "%v", err)
		return
	}
	if !r.budget(agentID).AllowN(time.Now(), size) {
		refuse(w, http.StatusTooManyRequests, "the agent has used its %d MiB of text for embeddings today", dailyBytes>>20)
		return
	}
	for i, t := range texts {
		texts[i] = hide(t)
	}
	ctx, cancel := context.WithTimeout(req.Context(), answerTime)
	defer cancel()
	vectors, tokens, err := r.model.Embed(ctx, texts)
	if err != nil {
		status, words := http.StatusBadGateway, "the model did not answer in time"
		if e, ok := errors.AsType[*model.Error](err); ok {
			words = fmt.Sprintf("%s: %s", e.Reason, e.Message)
			if e.Reason == model.RateLimited || e.Reason == model.Overloaded {
				status = http.StatusServiceUnavailable
			}
		}
		refuse(w, status, "%s", words)
		return
	}
	if r.count != nil {
		r.count(ctx, tokens)
	}
	answer(w, http.StatusOK, replyOf(r.name, vectors, tokens))
}

// parse returns the texts of a request and their size in bytes.
func (r *Relay) parse(body []byte) (texts []string, size int, err error) {
	var q struct {
		Model    string   `json:"model"`
		Input    []string `json:"input"`
		Encoding string   `json:"encoding_format"`
	}
	switch err := json.Unmarshal(body, &q); {
	case err != nil:
		return nil, 0, errors.New("the request must be JSON with model and a list input")
	case q.Model != r.name:
		return nil, 0, fmt.Errorf("the model must be %s", r.name)
	case q.Encoding != "" && q.Encoding != "float":
		return nil, 0, errors.New("encoding_format must be float")
	case len(q.Input) == 0 || len(q.Input) > model.MaxEmbedded:
		return nil, 0, fmt.Errorf("input has %d texts: must have 1 to %d", len(q.Input), model.MaxEmbedded)
	}
	for i, t := range q.Input {
		if size += len(t); strings.TrimSpace(t) == "" || len(t) > model.MaxEmbeddedBytes {
			return nil, 0, fmt.Errorf("input[%d] has %d bytes: must have text of at most %d", i, len(t), model.MaxEmbeddedBytes)
		}
	}
	if size > model.MaxEmbeddedTotal {
		return nil, 0, fmt.Errorf("input has %d bytes: must have at most %d", size, model.MaxEmbeddedTotal)
	}
	return q.Input, size, nil
}

// budget returns the agent's limit of bytes.
func (r *Relay) budget(agentID string) *rate.Limiter {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.budgets[agentID]
	if l == nil {
		if len(r.budgets) >= keptBudgets {
			for id, old := range r.budgets {
				if old.Tokens() >= dailyBytes {
					delete(r.budgets, id)
				}
			}
		}
		l = rate.NewLimiter(rate.Limit(float64(dailyBytes)/(24*time.Hour).Seconds()), dailyBytes)
		r.budgets[agentID] = l
	}
	return l
}

type reply struct {
	Object string   `json:"object"`
	Data   []vector `json:"data"`
	Model  string   `json:"model"`
	Usage  usage    `json:"usage"`
}

type vector struct {
	Object    string    `json:"object"`
	Index     int       `json:"index"`
	Embedding []float32 `json:"embedding"`
}

type usage struct {
	Prompt int64 `json:"prompt_tokens"`
	Total  int64 `json:"total_tokens"`
}

func replyOf(name string, vectors [][]float32, tokens int64) reply {
	out := reply{Object: "list", Model: name, Usage: usage{tokens, tokens}}
	for i, v := range vectors {
		out.Data = append(out.Data, vector{"embedding", i, v})
	}
	return out
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	answer(w, status, map[string]any{"error": map[string]string{"message": fmt.Sprintf(format, args...)}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the machine has gone
}
