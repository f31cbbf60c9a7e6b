package openai

import (
	"encoding/base64"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// chatParams says req in the SDK's types, and what is encoded of it already.
func chatParams(cfg Config, req model.Request) (sdk.ChatCompletionNewParams, model.Splice, error) {
	p := sdk.ChatCompletionNewParams{
		Model:           cfg.Name,
		StreamOptions:   sdk.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
		ReasoningEffort: shared.ReasoningEffort(cfg.Effort),
	}
	if req.MaxTokens > 0 {
		// Only OpenAI's own knows the newer name, and its newer models know no other.
		if strings.HasPrefix(cfg.BaseURL, defaultBaseURL) {
			p.MaxCompletionTokens = param.NewOpt(int64(req.MaxTokens))
		} else {
			p.MaxTokens = param.NewOpt(int64(req.MaxTokens))
		}
	}
	if strings.TrimSpace(req.System) != "" {
		p.Messages = append(p.Messages, sdk.SystemMessage(req.System))
	}
	p.Messages = append(p.Messages, param.Override[sdk.ChatCompletionMessageParamUnion](model.MessagesMark.JSON()))
	if len(req.Tools) > 0 {
		p.Tools = []sdk.ChatCompletionToolUnionParam{param.Override[sdk.ChatCompletionToolUnionParam](model.ToolsMark.JSON())}
	}
	encoded, err := req.Cache.Encode(req, nil, func(i int) ([]byte, error) {
		if m := req.Messages[i]; m.Role == conversation.User {
			return model.Elements(chatUser(m))
		}
		return chatAssistant(req.Messages[i]).MarshalJSON()
	}, func() ([]byte, error) { return model.Elements(chatTools(req.Tools)) })
	return p, encoded, err
}

func chatTools(specs []tool.Spec) []sdk.ChatCompletionToolUnionParam {
	var out []sdk.ChatCompletionToolUnionParam
	for _, t := range specs {
		f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: schema(t.Schema)}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		out = append(out, sdk.ChatCompletionFunctionTool(f))
	}
	return out
}

func chatAssistant(m conversation.Message) sdk.ChatCompletionMessageParamUnion {
	var p sdk.ChatCompletionAssistantMessageParam
	if text := m.PlainText(); text != "" {
		p.Content.OfString = param.NewOpt(text)
	}
	for _, c := range m.Calls() {
		p.ToolCalls = append(p.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID: c.ID, Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: c.Name, Arguments: string(c.Args)},
			}})
	}
	return sdk.ChatCompletionMessageParamUnion{OfAssistant: &p}
}

// chatUser says one message of the user: a tool message for each result, and
// what else there is in a message after them. A tool message holds text alone,
// so that the images of results go there too.
func chatUser(m conversation.Message) []sdk.ChatCompletionMessageParamUnion {
	var out []sdk.ChatCompletionMessageParamUnion
	var parts []sdk.ChatCompletionContentPartUnionParam
	for _, b := range m.Blocks {
		switch {
		case b.Result != nil:
			out = append(out, sdk.ToolMessage(resultText(*b.Result), b.Result.CallID))
			if len(b.Result.Images) > 0 {
				parts = append(parts, sdk.TextContentPart("Images of the result of call "+b.Result.CallID+":"))
			}
			for _, img := range b.Result.Images {
				parts = append(parts, chatImage(img))
			}
		case b.Image != nil:
			parts = append(parts, chatImage(*b.Image))
		default:
			parts = append(parts, sdk.TextContentPart(b.Text))
		}
	}
	switch {
	case len(parts) == 1 && parts[0].OfText != nil:
		out = append(out, sdk.UserMessage(parts[0].OfText.Text)) // a plain string: some servers know no parts
	case len(parts) > 0:
		out = append(out, sdk.UserMessage(parts))
	}
	return out
}

func chatImage(img conversation.Image) sdk.ChatCompletionContentPartUnionParam {
	return sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: dataURL(img)})
}

func dataURL(img conversation.Image) string {
	return "data:" + img.MediaType + ";base64," + base64.StdEncoding.EncodeToString(img.Data)
}

// resultText is a result as text; these APIs have no mark for a failed call.
func resultText(r conversation.ToolResult) string {
	switch {
	case r.Error && !strings.HasPrefix(strings.ToLower(r.Text), "error"):
		return "error: " + r.Text
	case r.Text == "" && len(r.Images) > 0:
		return "(see the images)"
	}
	return r.Text
}
