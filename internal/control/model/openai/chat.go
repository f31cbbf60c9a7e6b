package openai

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

type chat struct {
	client
	service sdk.ChatCompletionService
}

// chatProvider names reasoning that this API gives and does not take back.
const chatProvider = "openai-chat"

// Stream implements [model.Model].
func (c *chat) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		req, err := req.Cache.Prepare(chatProvider, req)
		var params sdk.ChatCompletionNewParams
		var encoded model.Splice
		if err == nil {
			params, encoded, err = chatParams(c.cfg, req)
		}
		if err != nil {
			yield(model.Event{}, err)
			return
		}
		inner, stop := context.WithCancel(model.WithSplice(ctx, encoded))
		defer stop()
		d := &chatDecoder{assembly: model.NewAssembly(chatProvider, req), begun: map[int64]begun{}}
		run(ctx, c.wire, c.service.NewStreaming(inner, params), d, yield)
	}
}

// A chatDecoder takes chunks. The reply is whole when a finish_reason has come;
// the usage comes after it, or with it, or never.
type chatDecoder struct {
	assembly *model.Assembly
	begun    map[int64]begun // by the server's index, the call that was last begun there
	count    int             // calls begun
	stop     model.Stop
	finished bool
	refused  bool
	usage    conversation.Usage
}

type begun struct{ key, id string }

func (d *chatDecoder) event(chunk sdk.ChatCompletionChunk) ([]model.Event, error) {
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
		if piece := reasoning(choice.Delta); piece != "" {
			add(d.assembly.Thinking("reasoning", piece))
		}
		add(d.assembly.Text("text", choice.Delta.Content))
		if choice.Delta.Refusal != "" {
			d.refused = true
			add(d.assembly.Text("text", choice.Delta.Refusal))
		}
		for _, call := range choice.Delta.ToolCalls {
			add(d.assembly.Args(d.key(call), arguments(call.Function)))
		}
		if choice.FinishReason != "" {
			d.stop, d.finished = finish(choice.FinishReason), true
		}
	}
	return out, nil
}

// key finds the call that a delta belongs to, and begins it if it is new. The
// API counts calls by index; a server that sends them whole may say 0 for each,
// so that another id, or a name after whole arguments, is another call.
func (d *chatDecoder) key(call sdk.ChatCompletionChunkChoiceDeltaToolCall) string {
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
		b = begun{key: "call " + strconv.Itoa(d.count), id: call.ID}
		d.begun[call.Index] = b
	}
	d.assembly.Call(b.key, b.id, call.Function.Name)
	return b.key
}

func (d *chatDecoder) end() (model.Event, bool) {
	if d.refused && d.stop == model.StopEnd {
		d.stop = model.StopRefusal
	}
	return d.assembly.Reply(d.stop, d.usage), d.finished
}

// arguments are a string of JSON; some servers give the object itself.
func arguments(f sdk.ChatCompletionChunkChoiceDeltaToolCallFunction) string {
	if raw := f.JSON.Arguments.Raw(); strings.HasPrefix(raw, "{") {
		return raw
	}
	return f.Arguments
}

// reasoning is a field that OpenAI does not have: DeepSeek, vLLM and llama.cpp
// call it reasoning_content, Ollama and OpenRouter reasoning.
func reasoning(d sdk.ChatCompletionChunkChoiceDelta) string {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		var piece string
		if json.Unmarshal([]byte(d.JSON.ExtraFields[name].Raw()), &piece) == nil && piece != "" {
			return piece
		}
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
	return model.StopEnd // stop, and what servers made up: eos, stop_sequence, end_turn
}
