// Package openai is a provider for OpenAI's two APIs over plain HTTP:
// Responses, and Chat Completions, which Ollama, vLLM, llama.cpp and most other
// servers also implement. It tolerates the omissions and differences of those
// servers. It streams and does not retry.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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

// newClient returns a client of an API whose replies are single documents. Of cfg it
// uses Name, BaseURL, Key and Client.
func newClient(cfg Config) client {
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBaseURL
	}
	wire := model.NewWire(cfg.Client, cfg.Key)
	wire.Whole = true
	return client{cfg: cfg, wire: wire, base: strings.TrimRight(cfg.BaseURL, "/")}
}

// send sends a request to the path below the API's address. The caller must close the
// body of the response, whose size the wire limits.
func (c *client) send(ctx context.Context, path, mediaType, accept string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "aloft")
	if c.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	return c.wire.Client.Do(r)
}

// document sends a request, and decodes the reply, which is a single document.
func (c *client) document(ctx context.Context, path, mediaType string, body []byte, reply any) error {
	resp, err := c.send(ctx, path, mediaType, "application/json", body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if json.Unmarshal(text, reply) != nil {
		return badReply("the reply does not match the API")
	}
	return nil
}

func badReply(format string, args ...any) error {
	return &model.Error{Reason: model.BadReply, Message: fmt.Sprintf(format, args...)}
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
