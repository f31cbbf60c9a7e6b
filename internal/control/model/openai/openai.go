// Package openai is the provider that speaks OpenAI's two APIs, through
// OpenAI's own SDK: Responses, and Chat Completions, which Ollama, vLLM,
// llama.cpp and most others speak too. What such servers leave out or say
// differently is taken as they mean it. It streams and does not retry.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

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
	c := client{cfg: cfg, wire: model.NewWire(cfg.Client, cfg.Key)}
	opts := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/") + "/"),
		option.WithHTTPClient(c.wire.Client), option.WithMaxRetries(0),
	}
	if cfg.Key != "" {
		opts = append(opts, option.WithAPIKey(cfg.Key))
	}
	// A service made directly reads no environment of the host's.
	switch cfg.API {
	case Responses, "":
		return &response{client: c, service: responses.NewResponseService(opts...)}, nil
	case Chat:
		return &chat{client: c, service: sdk.NewChatCompletionService(opts...)}, nil
	}
	return nil, fmt.Errorf("openai has no api %q; it is %q or %q", cfg.API, Responses, Chat)
}

type client struct {
	cfg  Config
	wire *model.Wire
}

// A decoder turns the events of one stream into ours.
type decoder[T any] interface {
	// event returns what one event becomes: any number of ours, or the error
	// that the provider reports in it.
	event(T) ([]model.Event, error)
	// end returns the whole reply if the stream held one.
	end() (model.Event, bool)
}

// run yields a stream to its end.
func run[T any](ctx context.Context, w *model.Wire, stream *ssestream.Stream[T], d decoder[T], yield func(model.Event, error) bool) {
	defer stream.Close()
	for stream.Next() {
		events, err := d.event(stream.Current())
		if err != nil {
			yield(model.Event{}, w.Error(ctx, err))
			return
		}
		for _, ev := range events {
			if !yield(ev, nil) || ev.Done != nil {
				return
			}
		}
	}
	if ctx.Err() == nil {
		if ev, ok := d.end(); ok {
			yield(ev, nil)
			return
		}
	}
	err := stream.Err()
	if e, ok := errors.AsType[*ssestream.StreamError](err); ok {
		err = model.StreamFailure(e.Event.Data)
	}
	if err == nil {
		err = model.CutShort()
	}
	yield(model.Event{}, w.Error(ctx, err))
}

// usage divides the input, of which OpenAI's cached tokens are a part.
func usage(input, output, read, written int64) conversation.Usage {
	return conversation.Usage{
		Input: max(input-read-written, 0), Output: output, CacheRead: read, CacheWrite: written,
	}
}

// schema says a tool's schema in the SDK's type. It has passed [model.Validate],
// so it is an object.
func schema(raw json.RawMessage) map[string]any {
	var m map[string]any
	_ = json.Unmarshal(raw, &m)
	return m
}
