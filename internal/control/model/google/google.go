// Package google is a provider for the Gemini API, using Google's SDK. In that
// API, a reasoning signature belongs to the part after the reasoning;
// conversations store it as a Thinking before that part. The package does not
// retry.
package google

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	sdk "google.golang.org/genai"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// provider is the name under which conversations store this provider's
// reasoning.
const provider = "google"

// Config configures the API and the model.
type Config struct {
	Name    string // the model's name in the API
	BaseURL string // the part of the URL before /v1beta; "" means Google's
	Key     string // sent as x-goog-api-key

	// Thinking is how many tokens the model may use for reasoning. 0 leaves the
	// number to the model. Summarized also leaves it to the model, and requests
	// a summary of the reasoning. Disabled turns reasoning off.
	Thinking int
	Effort   string // minimal to high, for models with levels; "" is the model's default
	Schema   bool   // the API enforces [model.Request.Schema] for this model

	Client *http.Client // nil means a client with Aloft's timeouts
}

// Values of [Config.Thinking].
const (
	Summarized = -1
	Disabled   = -2
)

const defaultBaseURL = "https://generativelanguage.googleapis.com"

// New returns the model that cfg describes. It does not connect. It returns an
// error if the key is missing.
func New(cfg Config) (model.Model, error) {
	if cfg.Key == "" {
		return nil, fmt.Errorf("google model %s: the key is missing; set api_key or api_key_env", cfg.Name) // without a key, the SDK would use the environment's
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBaseURL
	}
	base := strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1beta")
	wire := model.NewWire(cfg.Client, cfg.Key)
	// Set these values, so that the SDK does not read them from the host's
	// environment.
	client, err := sdk.NewClient(context.Background(), &sdk.ClientConfig{
		APIKey: cfg.Key, Backend: sdk.BackendGeminiAPI, HTTPClient: wire.Client,
		HTTPOptions: sdk.HTTPOptions{BaseURL: base, APIVersion: "v1beta"},
	})
	if err != nil {
		return nil, fmt.Errorf("google model %s: %w", cfg.Name, err)
	}
	return &gemini{cfg: cfg, wire: wire, models: client.Models}, nil
}

type gemini struct {
	cfg    Config
	wire   *model.Wire
	models *sdk.Models
}

// Stream implements [model.Model].
func (g *gemini) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return model.Stream(provider, g.cfg.Name, req, refusesSignature, func(req model.Request, yield func(model.Event, error) bool) error {
		return g.ask(ctx, req, yield)
	})
}

// ask yields the events of one reply. It returns an error that the caller must
// yield.
func (g *gemini) ask(ctx context.Context, req model.Request, yield func(model.Event, error) bool) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	inner, failure := model.KeepFailure(inner)
	contents, config := params(g.cfg, req)
	d := decoder{assembly: model.NewAssembly(provider, g.cfg.Name, req)}
	for res, err := range guarded(g.models.GenerateContentStream(inner, g.cfg.Name, contents, config)) {
		if err != nil {
			return g.wire.Error(ctx, cmp.Or(failure(), streamError(err)))
		}
		for _, ev := range d.events(res) {
			if !yield(ev, nil) {
				return nil
			}
		}
		if err := d.assembly.Err(); err != nil {
			return g.wire.Error(ctx, err)
		}
	}
	if err := ctx.Err(); err != nil || !d.finished {
		return g.wire.Error(ctx, model.CutShort())
	}
	yield(d.assembly.Reply(d.stop, d.usage), nil)
	return nil
}

// refusesSignature reports whether the API rejects the signature of earlier
// reasoning, which happens if another model wrote it.
func refusesSignature(err error) bool {
	e, ok := errors.AsType[*model.Error](err)
	return ok && e.Reason == model.BadRequest && strings.Contains(strings.ReplaceAll(strings.ToLower(e.Message), "_", " "), "thought signature")
}

// guarded turns a panic of the SDK's decoder, which uses reflection on the
// server's data, into an error of this reply.
func guarded(stream iter.Seq2[*sdk.GenerateContentResponse, error]) iter.Seq2[*sdk.GenerateContentResponse, error] {
	return func(yield func(*sdk.GenerateContentResponse, error) bool) {
		ours := false // whether the caller's loop body is running, whose panics must not be caught
		defer func() {
			if ours {
				return
			}
			if r := recover(); r != nil {
				yield(nil, &model.Error{Reason: model.BadReply, Message: "the reply does not match the API"})
			}
		}()
		for res, err := range stream {
			ours = true
			more := yield(res, err)
			ours = false
			if !more || err != nil {
				return
			}
		}
	}
}

// streamError extracts the provider's message from an error event of the
// stream.
func streamError(err error) error {
	if e, ok := errors.AsType[sdk.APIError](err); ok {
		b, merr := json.Marshal(e)
		if merr != nil {
			return merr
		}
		return model.StreamFailure(b)
	}
	return err
}

// A decoder converts the parts of one stream to events. The reply is complete
// when a finish reason has arrived.
type decoder struct {
	assembly *model.Assembly
	finished bool
	stop     model.Stop
	usage    conversation.Usage
	n        int    // number of parts so far
	kind     string // kind of the last part
}

func (d *decoder) events(res *sdk.GenerateContentResponse) []model.Event {
	if res == nil {
		return nil
	}
	if u := res.UsageMetadata; u != nil {
		d.usage = conversation.Usage{
			Input:  int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount) - int64(u.CachedContentTokenCount),
			Output: int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount), CacheRead: int64(u.CachedContentTokenCount),
		}
	}
	if f := res.PromptFeedback; f != nil && f.BlockReason != "" {
		d.finished, d.stop = true, model.StopRefusal
	}
	var out []model.Event
	if len(res.Candidates) == 0 || res.Candidates[0] == nil {
		return nil
	}
	c := res.Candidates[0]
	if c.Content != nil {
		for _, p := range c.Content.Parts {
			if p != nil {
				out = append(out, d.part(p)...)
			}
		}
	}
	if c.FinishReason != "" && c.FinishReason != sdk.FinishReasonUnspecified {
		d.finished, d.stop = true, finish(c.FinishReason)
	}
	return out
}

// part handles one part. Text and reasoning continue from one event to the
// next; a signature precedes the part that it signs.
func (d *decoder) part(p *sdk.Part) []model.Event {
	var ev model.Event
	var ok bool
	switch {
	case p.FunctionCall != nil:
		d.signature(p)
		key := d.key("call")
		args := []byte("{}")
		if len(p.FunctionCall.Args) > 0 {
			args, _ = json.Marshal(p.FunctionCall.Args) // cannot fail: it was decoded from JSON
		}
		d.assembly.Call(key, p.FunctionCall.ID, p.FunctionCall.Name)
		ev, ok = d.assembly.Args(key, string(args))
		d.kind = ""
	case p.Thought:
		ev, ok = d.assembly.Thinking(d.key("thought"), p.Text)
	default:
		d.signature(p)
		if p.Text != "" {
			ev, ok = d.assembly.Text(d.key("text"), p.Text)
		}
	}
	if !ok {
		return nil
	}
	return []model.Event{ev}
}

func (d *decoder) signature(p *sdk.Part) {
	if len(p.ThoughtSignature) > 0 {
		d.assembly.Opaque(d.key("signature"), base64.StdEncoding.EncodeToString(p.ThoughtSignature))
		d.kind = ""
	}
}

// key returns the key of the part that a piece belongs to: the last part if
// both have the same kind, otherwise a new part.
func (d *decoder) key(kind string) string {
	if kind != d.kind {
		d.n++
		d.kind = kind
	}
	return fmt.Sprint(d.n)
}

func finish(r sdk.FinishReason) model.Stop {
	switch r {
	case sdk.FinishReasonStop:
		return model.StopEnd
	case sdk.FinishReasonMaxTokens:
		return model.StopLength
	case sdk.FinishReasonMalformedFunctionCall, sdk.FinishReasonUnexpectedToolCall, sdk.FinishReasonTooManyToolCalls, sdk.FinishReasonOther:
		return model.StopEnd
	}
	return model.StopRefusal // safety, recitation, blocklist and the like
}
