// Package openai is the provider that speaks OpenAI's two APIs over plain HTTP:
// Responses, and Chat Completions, which Ollama, vLLM, llama.cpp and most others
// speak too. What such servers leave out or say differently is taken as they mean
// it. It streams and does not retry.
package openai

import (
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// provider names whose reasoning a conversation holds.
const provider = "openai"

const defaultBaseURL = "https://api.openai.com/v1"

// API is which of the two a server speaks.
type API string

// APIs.
const (
	Responses API = "responses"
	Chat      API = "chat"
)

// Config says where the API is and how to ask it.
type Config struct {
	Name    string // of the model, as the API knows it
	API     API    // "" is Responses
	BaseURL string // what stands before /responses or /chat/completions; "" is OpenAI's own
	Key     string // sent as a bearer token; "" sends none

	// Effort is how hard a reasoning model thinks: none, minimal, low to max.
	// "" is the model's own, and the only one for a model that does not reason.
	Effort string

	Client *http.Client // nil is one with Aloft's own time limits
}

// New returns the model that cfg describes. It does not connect. The error is
// for an API that there is not.
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
	base string // of URLs, without a slash at its end
}

// usage divides the input, of which OpenAI's cached tokens are a part.
func usage(input, output, read, written int64) conversation.Usage {
	return conversation.Usage{
		Input: max(input-read-written, 0), Output: output, CacheRead: read, CacheWrite: written,
	}
}
