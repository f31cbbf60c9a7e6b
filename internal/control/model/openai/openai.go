// Package openai is a provider for OpenAI's two APIs over plain HTTP:
// Responses, and Chat Completions, which Ollama, vLLM, llama.cpp and most other
// servers also implement. It tolerates the omissions and differences of those
// servers. It streams and does not retry.
package openai

import (
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// provider is the name under which conversations store this provider's
// reasoning.
const provider = "openai"

const defaultBaseURL = "https://api.openai.com/v1"

// API selects one of OpenAI's two APIs.
type API string

// The two APIs.
const (
	Responses API = "responses"
	Chat      API = "chat"
)

// Config configures the API and the model.
type Config struct {
	Name    string // the model's name in the API
	API     API    // "" means Responses
	BaseURL string // the part of the URL before /responses or /chat/completions; "" means OpenAI's
	Key     string // sent as a bearer token; "" sends none

	// Effort is the reasoning effort: none, minimal, low to max. "" is the
	// model's default, and the only valid value for a model that does not
	// reason.
	Effort string

	Serial bool // allow at most one call in a reply
	Schema bool // the API enforces [model.Request.Schema] for this model

	Client *http.Client // nil means a client with Aloft's timeouts
}

// New returns the model that cfg describes. It does not connect. It returns an
// error if the API is unknown.
func New(cfg Config) (model.Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBaseURL
	}
	c := client{cfg: cfg, wire: model.NewWire(cfg.Client, cfg.Key), base: strings.TrimRight(cfg.BaseURL, "/")}
	switch cfg.API {
	case Responses, "":
		return &response{c}, nil
	case Chat:
		return &chat{c}, nil
	}
	return nil, fmt.Errorf("openai has no api %q; it is %q or %q", cfg.API, Responses, Chat)
}

type client struct {
	cfg  Config
	wire *model.Wire
	base string // prefix of URLs, without a trailing slash
}

// schemaName is the name that the APIs require for a schema.
const schemaName = "reply"

// serial returns the value of parallel_tool_calls, which models without tools
// reject.
func (c Config) serial(req model.Request) *bool {
	if !c.Serial || len(req.Tools) == 0 {
		return nil
	}
	return new(bool)
}

// usage splits the input tokens, which in OpenAI's counts include the cached
// ones.
func usage(input, output, read, written int64) conversation.Usage {
	return conversation.Usage{
		Input: max(input-read-written, 0), Output: output, CacheRead: read, CacheWrite: written,
	}
}
