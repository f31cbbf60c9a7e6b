package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strconv"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

type chat struct{ client }

// chatProvider is the name for reasoning that this API sends but does not
// accept back.
const chatProvider = "openai-chat"

// Stream implements [model.Model].
func (c *chat) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		req, err := req.Cache.Prepare(chatProvider, c.cfg.Name, req)
		var body chatBody
		var encoded model.Splice
		if err == nil {
			body, encoded, err = chatRequest(c.cfg, req)
		}
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		d := &chatDecoder{assembly: model.NewAssembly(chatProvider, c.cfg.Name, req), begun: map[int64]startedCall{}}
		c.post(ctx, "/chat/completions", body, encoded, d, yield)
	}
}

// chatChunk is an event of a stream, with the fields that we use.
type chatChunk struct {
	Choices []struct {
		Index        int64     `json:"index"`
		Delta        chatDelta `json:"delta"`
		FinishReason string    `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens        int64 `json:"prompt_tokens"`
		CompletionTokens    int64 `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

// chatDelta is a piece of a reply. OpenAI sends no reasoning; DeepSeek, vLLM
// and llama.cpp call it reasoning_content, Ollama and OpenRouter reasoning.
type chatDelta struct {
	Content          string      `json:"content"`
	Refusal          string      `json:"refusal"`
	ReasoningContent string      `json:"reasoning_content"`
	Reasoning        string      `json:"reasoning"`
	ToolCalls        []chatPiece `json:"tool_calls"`
}

// chatPiece is a piece of a call.
type chatPiece struct {
	Index    int64  `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a JSON string; some servers send the object itself
	} `json:"function"`
}

// A chatDecoder handles chunks. The reply is complete when a finish_reason has
// arrived; the usage comes after it, with it, or never.
type chatDecoder struct {
	assembly *model.Assembly
	begun    map[int64]startedCall // the last call that was started, by the server's index
	count    int                   // number of calls started
	stop     model.Stop
	finished bool
	refused  bool
	usage    conversation.Usage
}

type startedCall struct{ key, id string }

func (d *chatDecoder) event(data []byte) ([]model.Event, error) {
	var chunk chatChunk
	if err := decode(data, &chunk); err != nil {
		return nil, err
	}
	var out []model.Event
	add := func(ev model.Event, ok bool) {
		if ok {
			out = append(out, ev)
		}
	}
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		d.usage = usage(u.PromptTokens, u.CompletionTokens, u.PromptTokensDetails.CachedTokens, 0)
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if piece := cmp.Or(choice.Delta.ReasoningContent, choice.Delta.Reasoning); piece != "" {
			add(d.assembly.Thinking("reasoning", piece))
		}
		add(d.assembly.Text("text", choice.Delta.Content))
		if choice.Delta.Refusal != "" {
			d.refused = true
			add(d.assembly.Text("text", choice.Delta.Refusal))
		}
		for _, call := range choice.Delta.ToolCalls {
			add(d.assembly.Args(d.key(call), call.arguments()))
		}
		if choice.FinishReason != "" {
			d.stop, d.finished = finish(choice.FinishReason), true
		}
	}
	return out, nil
}

// key returns the key of the call that a delta belongs to, and starts a new
// call if necessary. The API numbers calls by index. A server that sends
// complete calls may use the index 0 for each. So a different id, or a name
// after complete arguments, means a new call.
func (d *chatDecoder) key(call chatPiece) string {
	b, known := d.begun[call.Index]
	switch {
	case !known:
	case call.ID != "" && b.id != "" && call.ID != b.id:
		known = false
	case call.ID == "" && call.Function.Name != "" && d.assembly.Whole(b.key):
		known = false
	}
	if !known {
		d.count++
		b = startedCall{key: "call " + strconv.Itoa(d.count), id: call.ID}
		d.begun[call.Index] = b
	}
	d.assembly.Call(b.key, b.id, call.Function.Name)
	return b.key
}

func (d *chatDecoder) err() error { return d.assembly.Err() }

func (d *chatDecoder) end() (model.Event, bool) {
	if d.refused && d.stop == model.StopEnd {
		d.stop = model.StopRefusal
	}
	return d.assembly.Reply(d.stop, d.usage), d.finished
}

func (p chatPiece) arguments() string {
	var text string
	if json.Unmarshal(p.Function.Arguments, &text) == nil {
		return text
	}
	if bytes.HasPrefix(p.Function.Arguments, []byte("{")) {
		return string(p.Function.Arguments)
	}
	return ""
}

func finish(reason string) model.Stop {
	switch reason {
	case "tool_calls", "function_call":
		return model.StopCalls
	case "length":
		return model.StopLength
	case "content_filter":
		return model.StopRefusal
	}
	return model.StopEnd // stop, and other servers' values: eos, stop_sequence, end_turn
}
