package google

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	sdk "google.golang.org/genai"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// noSignature is the placeholder that the API accepts instead of the signature
// of a call that it did not make itself.
const noSignature = "skip_thought_signature_validator"

// params converts req to the SDK's types.
func params(cfg Config, req model.Request) ([]*sdk.Content, *sdk.GenerateContentConfig) {
	config := &sdk.GenerateContentConfig{MaxOutputTokens: int32(min(req.MaxTokens, 1<<30))}
	if cfg.Schema && req.Schema != nil {
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", req.Schema
	}
	if strings.TrimSpace(req.System) != "" {
		config.SystemInstruction = &sdk.Content{Parts: []*sdk.Part{{Text: req.System}}}
	}
	if cfg.Thinking != 0 || cfg.Effort != "" {
		config.ThinkingConfig = thinking(cfg)
	}
	if len(req.Tools) > 0 {
		t := &sdk.Tool{}
		for _, s := range req.Tools {
			t.FunctionDeclarations = append(t.FunctionDeclarations, &sdk.FunctionDeclaration{
				Name: s.Name, Description: s.Description, ParametersJsonSchema: s.Schema})
		}
		config.Tools = []*sdk.Tool{t}
	}
	names := map[string]string{} // names of calls, by id
	var contents []*sdk.Content
	for _, m := range req.Messages {
		c := &sdk.Content{Role: sdk.RoleUser, Parts: parts(m, names)}
		if m.Role == conversation.Assistant {
			c.Role = sdk.RoleModel
		}
		contents = append(contents, c)
	}
	return contents, config
}

// thinking returns the reasoning options of a request. The API accepts either a
// budget or a level.
func thinking(cfg Config) *sdk.ThinkingConfig {
	c := &sdk.ThinkingConfig{IncludeThoughts: cfg.Thinking != 0 && cfg.Thinking != Disabled}
	switch {
	case cfg.Effort != "":
		c.ThinkingLevel = sdk.ThinkingLevel(strings.ToUpper(cfg.Effort))
	case cfg.Thinking != Summarized:
		budget := int32(min(max(cfg.Thinking, 0), 1<<30))
		c.ThinkingBudget = &budget
	}
	return c
}

func parts(m conversation.Message, names map[string]string) []*sdk.Part {
	var out, images []*sdk.Part
	var signature []byte
	signed := false
	for _, b := range m.Blocks {
		p := &sdk.Part{}
		switch {
		case b.Thinking != nil:
			signature, _ = base64.StdEncoding.DecodeString(b.Thinking.Opaque) // if Opaque is not base64, the part has no signature
			continue
		case b.Call != nil:
			names[b.Call.ID] = b.Call.Name
			p.FunctionCall = &sdk.FunctionCall{Name: b.Call.Name}
			_ = json.Unmarshal(b.Call.Args, &p.FunctionCall.Args) // an object, see model.Compatible
			if signature == nil && !signed {
				signature = []byte(noSignature)
			}
			signed = true // the API signs only the first of parallel calls
		case b.Result != nil:
			p.FunctionResponse = response(*b.Result, names)
			for _, img := range b.Result.Images {
				images = append(images, image(img))
			}
		case b.Image != nil:
			p = image(*b.Image)
		default:
			p.Text = b.Text
		}
		p.ThoughtSignature, signature = signature, nil
		out = append(out, p)
	}
	// The results of one turn must be consecutive; their images follow.
	return append(out, images...)
}

func response(r conversation.ToolResult, names map[string]string) *sdk.FunctionResponse {
	field := "output"
	if r.Error {
		field = "error"
	}
	return &sdk.FunctionResponse{Name: names[r.CallID], Response: map[string]any{field: r.Text}}
}

func image(img conversation.Image) *sdk.Part {
	return &sdk.Part{InlineData: &sdk.Blob{MIMEType: img.MediaType, Data: img.Data}}
}
