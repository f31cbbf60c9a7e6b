// Package anthropic is a provider for the Messages API, using Anthropic's SDK.
// It streams, marks the parts of a conversation that are worth caching, and
// sends reasoning back with its signature. It does not retry.
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// provider is the name under which conversations store this provider's
// reasoning.
const provider = "anthropic"

// Values of [Config.Thinking].
const (
	Adaptive = -1 // the model decides how much it reasons; older models reject this value
	Disabled = -2 // none, for models that reason by default
)

const defaultBaseURL = "https://api.anthropic.com"

// Config configures the API and the model.
type Config struct {
	Name    string // the model's name in the API
	BaseURL string // the part of the URL before /v1/messages; "" means Anthropic's
	Key     string // sent as x-api-key

	// Thinking is how many tokens the model may use for reasoning, at least
	// 1024, or one of the constants Adaptive and Disabled. 0 leaves it to the
	// API.
	Thinking  int
	Effort    string // low to max; "" is the model's default
	LongBeta  bool   // request the 1m context window with a beta header
	Serial    bool   // allow at most one call in a reply
	Schema    bool   // the API enforces [model.Request.Schema] for this model
	MaxOutput int    // maximum reply length for requests without one; 0 is the model's known maximum

	Client *http.Client // nil means a client with Aloft's timeouts
}

// New returns the model that cfg describes. It does not connect.
func New(cfg Config) model.Model {
	base := cfg.BaseURL
	if base == "" {
		base = defaultBaseURL
	}
	// Some users put the version in the URL, but the SDK adds it.
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	wire := model.NewWire(cfg.Client, cfg.Key)
	// Unlike a client, a service reads no settings from the host's environment.
	service := sdk.NewMessageService(
		option.WithBaseURL(base), option.WithAPIKey(cfg.Key),
		option.WithHTTPClient(wire.Client), option.WithMaxRetries(0),
	)
	return &messages{cfg: cfg, wire: wire, service: service}
}

type messages struct {
	cfg     Config
	wire    *model.Wire
	service sdk.MessageService
}

// Stream implements [model.Model].
func (m *messages) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return model.Stream(provider, m.cfg.Name, req, refusesThinking, func(req model.Request, yield func(model.Event, error) bool) error {
		return m.ask(ctx, req, yield)
	})
}

// ask yields the events of one reply. It returns an error that the caller must
// yield.
func (m *messages) ask(ctx context.Context, req model.Request, yield func(model.Event, error) bool) error {
	params, encoded, err := params(m.cfg, req)
	if err != nil {
		return err
	}
	inner, stop := context.WithCancel(model.WithSplice(ctx, encoded))
	defer stop()
	var opts []option.RequestOption
	if betas := betas(m.cfg); len(betas) > 0 {
		opts = append(opts, option.WithHeader("anthropic-beta", strings.Join(betas, ",")))
	}
	stream := m.service.NewStreaming(inner, params, opts...)
	defer stream.Close()
	d := decoder{assembly: model.NewAssembly(provider, m.cfg.Name, req)}
	for stream.Next() {
		ev, ok := d.event(stream.Current())
		if err := d.assembly.Err(); err != nil {
			return m.wire.Error(ctx, err)
		}
		if ok && !yield(ev, nil) || ev.Done != nil {
			return nil
		}
	}
	if err := stream.Err(); err != nil {
		return m.wire.Error(ctx, streamError(err))
	}
	return m.wire.Error(ctx, model.CutShort())
}

// refusesThinking reports whether the API rejects earlier reasoning. It does so
// if another model wrote the reasoning, or if the conversation before the
// reasoning has changed, for example by compaction. A retry with the reasoning
// would fail again.
func refusesThinking(err error) bool {
	e, ok := errors.AsType[*model.Error](err)
	return ok && e.Reason == model.BadRequest && (strings.Contains(e.Message, "`thinking` block") ||
		strings.Contains(e.Message, "`redacted_thinking`") || strings.Contains(e.Message, "cannot contain `thinking`"))
}

// streamError extracts the provider's message from an error event of the
// stream. [model.Wire] has already handled error statuses.
func streamError(err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return model.StreamFailure([]byte(e.RawJSON()))
	}
	return err
}

// A decoder converts the events of one stream.
type decoder struct {
	assembly *model.Assembly
	usage    conversation.Usage
	stop     model.Stop
	stopped  bool
}

func (d *decoder) event(e sdk.MessageStreamEventUnion) (model.Event, bool) {
	key := strconv.FormatInt(e.Index, 10)
	switch e.Type {
	case "message_start":
		u := e.Message.Usage
		d.usage = conversation.Usage{Input: u.InputTokens, Output: u.OutputTokens,
			CacheRead: u.CacheReadInputTokens, CacheWrite: u.CacheCreationInputTokens}
	case "content_block_start":
		return d.start(key, e.ContentBlock)
	case "content_block_delta":
		return d.delta(key, e.Delta)
	case "message_delta":
		d.stop, d.stopped = stop(e.Delta.StopReason), true
		d.addUsage(e.Usage)
	case "message_stop":
		if d.stopped {
			return d.assembly.Reply(d.stop, d.usage), true
		}
	}
	return model.Event{}, false
}

func (d *decoder) start(key string, b sdk.ContentBlockStartEventContentBlockUnion) (model.Event, bool) {
	switch b.Type {
	case "text":
		return d.assembly.Text(key, b.Text)
	case "thinking":
		if b.Signature != "" {
			d.assembly.Opaque(key, b.Signature)
		}
		return d.assembly.Thinking(key, b.Thinking)
	case "redacted_thinking":
		d.assembly.Opaque(key, redacted+b.Data)
	case "tool_use":
		d.assembly.Call(key, b.ID, b.Name)
		// Servers that do not stream arguments send them here; the real API
		// sends an empty object here and then deltas.
		if input, err := json.Marshal(b.Input); err == nil && string(input) != "{}" && string(input) != "null" {
			return d.assembly.Args(key, string(input))
		}
	}
	return model.Event{}, false
}

func (d *decoder) delta(key string, e sdk.MessageStreamEventUnionDelta) (model.Event, bool) {
	switch e.Type {
	case "text_delta":
		return d.assembly.Text(key, e.Text)
	case "thinking_delta":
		return d.assembly.Thinking(key, e.Thinking)
	case "signature_delta":
		d.assembly.Opaque(key, e.Signature)
	case "input_json_delta":
		return d.assembly.Args(key, e.PartialJSON)
	}
	return model.Event{}, false
}

// addUsage adds the totals of the last message_delta. Values that it omits were
// in message_start.
func (d *decoder) addUsage(u sdk.MessageDeltaUsage) {
	for _, f := range []struct {
		to  *int64
		now int64
	}{
		{&d.usage.Input, u.InputTokens}, {&d.usage.Output, u.OutputTokens},
		{&d.usage.CacheRead, u.CacheReadInputTokens}, {&d.usage.CacheWrite, u.CacheCreationInputTokens},
	} {
		if f.now > 0 {
			*f.to = f.now
		}
	}
}

func stop(reason sdk.StopReason) model.Stop {
	switch reason {
	case sdk.StopReasonToolUse:
		return model.StopCalls
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.StopLength
	case sdk.StopReasonPauseTurn: // only with the provider's own tools; the reply is incomplete
		return model.StopLength
	case sdk.StopReasonRefusal:
		return model.StopRefusal
	}
	return model.StopEnd
}
