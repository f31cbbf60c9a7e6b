package openai

import (
	"encoding/json"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// responseParams says req in the SDK's types, and what is encoded of it already. Nothing is stored at the
// provider's; so that reasoning can go on over several replies it is asked for
// in encrypted form and given back.
func responseParams(cfg Config, req model.Request) (responses.ResponseNewParams, model.Splice, error) {
	p := responses.ResponseNewParams{
		Model: cfg.Name,
		Store: param.NewOpt(false),
	}
	if t := model.Lookup(cfg.Name).Traits; t.Provider != provider || len(t.Effort) > 0 { // a model that does not reason refuses it
		p.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if cfg.Effort != "" {
		p.Reasoning = shared.ReasoningParam{Effort: shared.ReasoningEffort(cfg.Effort), Summary: shared.ReasoningSummaryAuto}
	}
	if req.MaxTokens > 0 {
		p.MaxOutputTokens = param.NewOpt(int64(max(req.MaxTokens, 16))) // the API's own lower bound
	}
	if strings.TrimSpace(req.System) != "" {
		p.Instructions = param.NewOpt(req.System)
	}
	if len(req.Tools) > 0 {
		p.Tools = []responses.ToolUnionParam{param.Override[responses.ToolUnionParam](model.ToolsMark.JSON())}
	}
	p.Input.OfInputItemList = responses.ResponseInputParam{param.Override[responses.ResponseInputItemUnionParam](model.MessagesMark.JSON())}
	encoded, err := req.Cache.Encode(req, nil,
		func(i int) ([]byte, error) { return model.Elements(items(req.Messages[i])) },
		func() ([]byte, error) { return model.Elements(responseTools(req.Tools)) })
	return p, encoded, err
}

func responseTools(specs []tool.Spec) (out []responses.ToolUnionParam) {
	for _, t := range specs {
		f := &responses.FunctionToolParam{Name: t.Name, Parameters: schema(t.Schema), Strict: param.NewOpt(false)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		out = append(out, responses.ToolUnionParam{OfFunction: f})
	}
	return out
}

// items are one message as items: every call, result and piece of reasoning is
// one of its own, and what is said between them is a message.
func items(m conversation.Message) []responses.ResponseInputItemUnionParam {
	var out []responses.ResponseInputItemUnionParam
	var parts responses.ResponseInputMessageContentListParam
	for _, b := range m.Blocks {
		switch {
		case b.Thinking != nil:
			if item, ok := reasoningItem(*b.Thinking); ok {
				out = append(out, item)
			}
		case b.Call != nil:
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(string(b.Call.Args), b.Call.ID, b.Call.Name))
		case b.Result != nil:
			out = append(out, resultItem(*b.Result))
		case b.Image != nil:
			parts = append(parts, responses.ResponseInputContentUnionParam{OfInputImage: &responses.ResponseInputImageParam{
				Detail: responses.ResponseInputImageDetailAuto, ImageURL: param.NewOpt(dataURL(*b.Image))}})
		case m.Role == conversation.Assistant:
			out = append(out, responses.ResponseInputItemParamOfMessage(b.Text, responses.EasyInputMessageRoleAssistant))
		default:
			parts = append(parts, responses.ResponseInputContentParamOfInputText(b.Text))
		}
	}
	if len(parts) > 0 {
		out = append(out, responses.ResponseInputItemParamOfMessage(parts, responses.EasyInputMessageRoleUser))
	}
	return out
}

// reasoningItem gives reasoning back. What does not decode was written by
// another version, and the conversation does without it.
func reasoningItem(t conversation.Thinking) (responses.ResponseInputItemUnionParam, bool) {
	var o opaque
	if json.Unmarshal([]byte(t.Opaque), &o) != nil || o.Encrypted == "" {
		return responses.ResponseInputItemUnionParam{}, false
	}
	summary := []responses.ResponseReasoningItemSummaryParam{}
	for _, s := range o.Summary {
		summary = append(summary, responses.ResponseReasoningItemSummaryParam{Text: s})
	}
	return responses.ResponseInputItemUnionParam{OfReasoning: &responses.ResponseReasoningItemParam{
		ID: o.ID, Summary: summary, EncryptedContent: param.NewOpt(o.Encrypted),
	}}, true
}

func resultItem(r conversation.ToolResult) responses.ResponseInputItemUnionParam {
	out := &responses.ResponseInputItemFunctionCallOutputParam{CallID: param.NewOpt(r.CallID)}
	if len(r.Images) == 0 {
		out.Output.OfString = param.NewOpt(resultText(r))
		return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: out}
	}
	list := responses.ResponseFunctionCallOutputItemListParam{
		{OfInputText: &responses.ResponseInputTextContentParam{Text: resultText(r)}},
	}
	for _, img := range r.Images {
		list = append(list, responses.ResponseFunctionCallOutputItemUnionParam{
			OfInputImage: &responses.ResponseInputImageContentParam{ImageURL: param.NewOpt(dataURL(img))}})
	}
	out.Output.OfResponseFunctionCallOutputItemArray = list
	return responses.ResponseInputItemUnionParam{OfFunctionCallOutput: out}
}
