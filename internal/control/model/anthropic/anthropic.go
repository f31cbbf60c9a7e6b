// Package anthropic is the provider that speaks the Messages API, through
// Anthropic's own SDK. It streams, marks the parts of a conversation that are
// worth caching, and gives reasoning back with its signature. It does not retry.
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

// provider names whose reasoning a conversation holds.
const provider = "anthropic"

// Values of [Config.Thinking].
const (
	Adaptive = -1 // as much as the model finds right; older models refuse it
	Disabled = -2 // none, of models that think unless they are told not to
)

const defaultBaseURL = "https://api.anthropic.com"

// Config says where the API is and how to ask it.
type Config struct {
	Name    string // of the model, as the API knows it
	BaseURL string // what stands before /v1/messages; "" is Anthropic's own
	Key     string // sent as x-api-key

	// Thinking is how many tokens the model may reason with before it answers, at
	// least 1024, or one of the constants below. 0 leaves it to the API.
	Thinking  int
	Effort    string // low to max; "" is the model's own
	LongBeta  bool   // ask for the window of 1m tokens by the API's beta header
	MaxOutput int    // tokens of a reply to a request without a limit; 0 is what is known of the model

	Client *http.Client // nil is one with Aloft's own time limits
}

// New returns the model that cfg describes. It does not connect.
func New(cfg Config) model.Model {
	base := cfg.BaseURL
	if base == "" {
		base = defaultBaseURL
	}
	// Some write the version into the address; the SDK adds it.
	base = strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")
	wire := model.NewWire(cfg.Client, cfg.Key)
	// A service made directly reads no environment and no profile of the host's.
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
	return func(yield func(model.Event, error) bool) {
		req, err := req.Cache.Prepare(provider, req)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		err = m.ask(ctx, req, yield)
		if refusesThinking(err) {
			if bare, ok := model.WithoutThinking(provider, req); ok {
				err = m.ask(ctx, bare, yield)
			}
		}
		if err != nil {
			yield(model.Event{}, err)
		}
	}
}

// ask yields the events of one reply. It returns an error that is still to be
// yielded.
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
	d := decoder{assembly: model.NewAssembly(provider, req)}
	for stream.Next() {
		ev, ok := d.event(stream.Current())
		if ok && !yield(ev, nil) || ev.Done != nil {
			return nil
		}
	}
	if err := stream.Err(); err != nil {
		return m.wire.Error(ctx, streamError(err))
	}
	return m.wire.Error(ctx, model.CutShort())
}

// refusesThinking reports whether the API refuses reasoning that was given back.
// It does so where the reasoning is of another model, or where the conversation
// before it has changed, as a summary changes it: no request with it would succeed.
func refusesThinking(err error) bool {
	e, ok := errors.AsType[*model.Error](err)
	return ok && e.Reason == model.BadRequest && (strings.Contains(e.Message, "`thinking` block") ||
		strings.Contains(e.Message, "`redacted_thinking`") || strings.Contains(e.Message, "cannot contain `thinking`"))
}

// streamError finds the provider's own words in an error event of the stream.
// A status other than success never gets here: the wire has answered it.
func streamError(err error) error {
	if e, ok := errors.AsType[*sdk.Error](err); ok {
		return model.StreamFailure([]byte(e.RawJSON()))
	}
	return err
}

// A decoder turns the events of one stream into ours.
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
		// Servers that do not stream arguments put them here; the API's own
		// puts an empty object and sends deltas.
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

// addUsage takes the sums that the last message_delta gives; what it leaves out
// message_start has given.
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
	case sdk.StopReasonPauseTurn: // only with tools of the provider's own; it has more to say
		return model.StopLength
	case sdk.StopReasonRefusal:
		return model.StopRefusal
	}
	return model.StopEnd
}
