package openai

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"
	"strings"

	"aloft/internal/control/model"
)

type response struct{ client }

// Stream implements [model.Model].
func (r *response) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		req, err := req.Cache.Prepare(provider, r.cfg.Name, req)
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		ask := func(req model.Request, yield func(model.Event, error) bool) {
			body, encoded, err := responseRequest(r.cfg, req)
			if err != nil {
				yield(model.Event{}, err)
				return
			}
			r.post(ctx, "/responses", body, encoded, &responseDecoder{assembly: model.NewAssembly(provider, r.cfg.Name, req)}, yield)
		}
		again := false
		ask(req, func(e model.Event, err error) bool {
			if refusesReasoning(err) {
				if req, again = model.WithoutThinking(provider, req); again {
					return false
				}
			}
			return yield(e, err)
		})
		if again {
			ask(req, yield)
		}
	}
}

// refusesReasoning reports whether the API rejects earlier reasoning, which
// happens if the reasoning comes from another account. A retry with the
// reasoning would fail again.
func refusesReasoning(err error) bool {
	e, ok := errors.AsType[*model.Error](err)
	return ok && e.Reason == model.BadRequest && (strings.Contains(e.Message, "encrypted content") || strings.Contains(e.Message, "'reasoning'"))
}

// opaque is the stored form of reasoning that must be sent back.
type opaque struct {
	ID        string   `json:"id"`
	Encrypted string   `json:"encrypted"`
	Summary   []string `json:"summary,omitempty"`
}

// responseEvent is an event of a stream, with the fields that we use.
type responseEvent struct {
	Type         string       `json:"type"`
	OutputIndex  int64        `json:"output_index"`
	SummaryIndex int64        `json:"summary_index"`
	Delta        string       `json:"delta"`
	Item         responseItem `json:"item"`
	Response     struct {
		Status            string          `json:"status"`
		Error             json.RawMessage `json:"error"`
		IncompleteDetails struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage struct {
			InputTokens        int64 `json:"input_tokens"`
			OutputTokens       int64 `json:"output_tokens"`
			InputTokensDetails struct {
				CachedTokens     int64 `json:"cached_tokens"`
				CacheWriteTokens int64 `json:"cache_write_tokens"`
			} `json:"input_tokens_details"`
		} `json:"usage"`
	} `json:"response"`
}

// A responseDecoder handles the events of one response. The reply is complete
// only with the last event, completed or incomplete.
type responseDecoder struct {
	assembly *model.Assembly
	refused  bool
}

func (d *responseDecoder) event(data []byte) ([]model.Event, error) {
	var e responseEvent
	if err := decode(data, &e); err != nil {
		return nil, err
	}
	key := strconv.FormatInt(e.OutputIndex, 10)
	switch e.Type {
	case "response.output_text.delta":
		return one(d.assembly.Text(key, e.Delta))
	case "response.refusal.delta":
		d.refused = true
		return one(d.assembly.Text(key, e.Delta))
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return one(d.assembly.Thinking(key, e.Delta))
	case "response.reasoning_summary_part.added":
		if e.SummaryIndex > 0 {
			return one(d.assembly.Thinking(key, "\n\n"))
		}
	case "response.output_item.added":
		if e.Item.Type == "function_call" {
			d.assembly.Call(key, e.Item.CallID, e.Item.Name)
			return one(d.assembly.Args(key, e.Item.Arguments))
		}
	case "response.function_call_arguments.delta":
		return one(d.assembly.Args(key, e.Delta))
	case "response.output_item.done":
		return d.item(key, e.Item)
	case "response.completed", "response.incomplete":
		return []model.Event{d.reply(e)}, nil
	case "response.failed":
		return nil, model.StreamFailure(e.Response.Error)
	case "error":
		return nil, model.StreamFailure(data)
	}
	return nil, nil
}

func one(ev model.Event, ok bool) ([]model.Event, error) {
	if !ok {
		return nil, nil
	}
	return []model.Event{ev}, nil
}

// item handles a finished item: it adds the text that the deltas lacked, and
// stores the reasoning to send it back.
func (d *responseDecoder) item(key string, item responseItem) ([]model.Event, error) {
	switch item.Type {
	case "function_call":
		d.assembly.Call(key, item.CallID, item.Name)
		if d.assembly.Len(key) == 0 {
			return one(d.assembly.Args(key, item.Arguments))
		}
	case "reasoning":
		if item.EncryptedContent == "" {
			return nil, nil // the item has nothing to send back
		}
		o := opaque{ID: item.ID, Encrypted: item.EncryptedContent}
		for _, s := range item.summary() {
			o.Summary = append(o.Summary, s.Text)
		}
		b, err := json.Marshal(o)
		if err != nil {
			return nil, err
		}
		d.assembly.Opaque(key, string(b))
	}
	return nil, nil
}

func (d *responseDecoder) reply(e responseEvent) model.Event {
	r := e.Response
	stop := model.StopEnd
	switch {
	case strings.Contains(r.IncompleteDetails.Reason, "content_filter"), d.refused:
		stop = model.StopRefusal
	case r.Status == "incomplete":
		stop = model.StopLength
	}
	u := r.Usage
	return d.assembly.Reply(stop, usage(u.InputTokens, u.OutputTokens,
		u.InputTokensDetails.CachedTokens, u.InputTokensDetails.CacheWriteTokens))
}

func (d *responseDecoder) err() error { return d.assembly.Err() }

// end returns no reply, because without its last event a stream has no complete
// reply.
func (d *responseDecoder) end() (model.Event, bool) { return model.Event{}, false }

// summary returns the summary of a reasoning item.
func (i responseItem) summary() []responsePart {
	if i.Summary == nil {
		return nil
	}
	return *i.Summary
}
