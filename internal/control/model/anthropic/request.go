package anthropic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// redacted is the prefix of Thinking.Opaque for the data of a redacted block.
// Signatures contain no colon.
const redacted = "redacted:"

const minThinking = 1024 // the API's minimum

// params converts req to the SDK's types. The Splice holds the parts that are
// already encoded.
func params(cfg Config, req model.Request) (sdk.MessageNewParams, model.Splice, error) {
	p := sdk.MessageNewParams{
		Model:     cfg.Name,
		MaxTokens: int64(req.MaxTokens),
		Messages:  []sdk.MessageParam{param.Override[sdk.MessageParam](model.MessagesMark.JSON())},
	}
	if len(req.Tools) > 0 {
		p.Tools = []sdk.ToolUnionParam{param.Override[sdk.ToolUnionParam](model.ToolsMark.JSON())}
		if cfg.Serial {
			p.ToolChoice.OfAuto = &sdk.ToolChoiceAutoParam{DisableParallelToolUse: param.NewOpt(true)}
		}
	}
	if cfg.Schema && req.Schema != nil {
		if err := json.Unmarshal(req.Schema, &p.OutputConfig.Format.Schema); err != nil {
			return p, nil, fmt.Errorf("the reply's schema: %w", err)
		}
	}
	if p.MaxTokens <= 0 {
		p.MaxTokens = int64(cmp.Or(cfg.MaxOutput, model.Lookup(cfg.Name).MaxOutput))
	}
	if cfg.Effort != "" {
		p.OutputConfig.Effort = sdk.OutputConfigEffort(cfg.Effort)
	}
	if strings.TrimSpace(req.System) != "" {
		p.System = []sdk.TextBlockParam{{Text: req.System, CacheControl: sdk.NewCacheControlEphemeralParam()}}
	}
	// The budget counts towards max_tokens and must be less.
	switch budget := min(int64(cfg.Thinking), p.MaxTokens-1); {
	case cfg.Thinking == Adaptive: // newer models leave the text of the reasoning out unless it is requested
		p.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: sdk.ThinkingConfigAdaptiveDisplaySummarized}}
	case cfg.Thinking == Disabled:
		p.Thinking = sdk.ThinkingConfigParamUnion{OfDisabled: &sdk.ThinkingConfigDisabledParam{}}
	case budget >= minThinking && mayThink(req.Messages):
		p.Thinking = sdk.ThinkingConfigParamOfEnabled(budget)
	}
	known := model.Lookup(cfg.Name).Traits.Thinking != model.NoThinking
	// The API rejects reasoning in the current turn while thinking is off.
	unthinking := p.Thinking.OfEnabled == nil && p.Thinking.OfAdaptive == nil && (known || cfg.Thinking != 0)
	marked := cached(req.Messages)
	form := func(i int) int {
		f := plainForm
		if unthinking {
			f |= unthinkingForm
		}
		if slices.Contains(marked, i) {
			f |= cachedForm
		}
		return f
	}
	encoded, err := req.Cache.Encode(req, form, func(i int) ([]byte, error) { return message(req.Messages[i], form(i)).MarshalJSON() },
		func() ([]byte, error) { return model.Elements(tools(req.Tools)) })
	return p, encoded, err
}

// Bits that describe the form of an encoded message.
const (
	plainForm      = 0
	unthinkingForm = 1 // without reasoning
	cachedForm     = 2 // at the end of a cached prefix
)

// mayThink reports whether a request with a budget may enable thinking. Within
// a turn that began without thinking it may not, because with thinking the API
// requires that the first reply of the turn begins with reasoning.
func mayThink(messages []conversation.Message) bool {
	i := len(messages) - 1
	for i >= 1 && messages[i].Blocks[0].Result != nil {
		i -= 2
	}
	if i == len(messages)-1 {
		return true
	}
	return messages[i+1].Blocks[0].Thinking != nil
}

// betas returns the beta headers of a request.
func betas(cfg Config) (out []string) {
	if cfg.LongBeta {
		out = append(out, sdk.AnthropicBetaContext1m2025_08_07)
	}
	if cfg.Thinking > 0 { // reason also between the calls of a turn, as newer models do by default
		out = append(out, sdk.AnthropicBetaInterleavedThinking2025_05_14)
	}
	return out
}

func tools(specs []tool.Spec) []sdk.ToolUnionParam {
	var out []sdk.ToolUnionParam
	for i, s := range specs {
		t := &sdk.ToolParam{Name: s.Name, InputSchema: schema(s.Schema)}
		if s.Description != "" {
			t.Description = param.NewOpt(s.Description)
		}
		if i == len(specs)-1 {
			t.CacheControl = sdk.NewCacheControlEphemeralParam() // covers everything before it
		}
		out = append(out, sdk.ToolUnionParam{OfTool: t})
	}
	return out
}

// schema passes a JSON schema on unchanged. [model.Validate] has checked that
// it is an object.
func schema(raw json.RawMessage) sdk.ToolInputSchemaParam {
	return param.Override[sdk.ToolInputSchemaParam](raw)
}

func message(m conversation.Message, form int) sdk.MessageParam {
	p := sdk.MessageParam{Role: sdk.MessageParamRole(m.Role)}
	for _, b := range m.Blocks {
		if b.Thinking == nil || form&unthinkingForm == 0 {
			p.Content = append(p.Content, block(b))
		}
	}
	if form&cachedForm != 0 {
		if mark := p.Content[len(p.Content)-1].GetCacheControl(); mark != nil {
			*mark = sdk.NewCacheControlEphemeralParam()
		}
	}
	return p
}

func block(b conversation.Block) sdk.ContentBlockParamUnion {
	switch {
	case b.Image != nil:
		return sdk.ContentBlockParamUnion{OfImage: image(*b.Image)}
	case b.Thinking != nil:
		if data, ok := strings.CutPrefix(b.Thinking.Opaque, redacted); ok {
			return sdk.NewRedactedThinkingBlock(data)
		}
		return sdk.NewThinkingBlock(b.Thinking.Opaque, b.Thinking.Text)
	case b.Call != nil:
		return sdk.NewToolUseBlock(b.Call.ID, b.Call.Args, b.Call.Name)
	case b.Result != nil:
		return sdk.ContentBlockParamUnion{OfToolResult: result(*b.Result)}
	}
	return sdk.NewTextBlock(b.Text)
}

func image(img conversation.Image) *sdk.ImageBlockParam {
	return &sdk.ImageBlockParam{Source: sdk.ImageBlockParamSourceUnion{OfBase64: &sdk.Base64ImageSourceParam{
		Data: base64.StdEncoding.EncodeToString(img.Data), MediaType: sdk.Base64ImageSourceMediaType(img.MediaType),
	}}}
}

func result(r conversation.ToolResult) *sdk.ToolResultBlockParam {
	p := &sdk.ToolResultBlockParam{ToolUseID: r.CallID}
	if r.Error {
		p.IsError = param.NewOpt(true)
	}
	text := r.Text
	if strings.TrimSpace(text) == "" && r.Error {
		text = "the tool failed without a message" // the API rejects an error without content
	}
	if strings.TrimSpace(text) != "" {
		p.Content = append(p.Content, sdk.ToolResultBlockParamContentUnion{OfText: &sdk.TextBlockParam{Text: text}})
	}
	for _, img := range r.Images {
		p.Content = append(p.Content, sdk.ToolResultBlockParamContentUnion{OfImage: image(img)})
	}
	return p
}

// cached returns the indexes of the messages at which a cached prefix ends: the
// user's last message, whose prefix this request writes to the cache, and the
// previous user message, whose prefix the previous turn has written. With the
// marks after the system prompt and the tools, these are the four marks that
// the API allows.
func cached(messages []conversation.Message) (marked []int) {
	for i := len(messages) - 1; i >= 0 && len(marked) < 2; i-- {
		if messages[i].Role == conversation.User {
			marked = append(marked, i)
		}
	}
	return marked
}
