package google

import (
	"context"
	"fmt"

	sdk "google.golang.org/genai"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// NewImages returns a Gemini model that generates images. It does not connect.
// Of cfg it uses Name, BaseURL, Key and Client. It returns an error if the key
// is missing.
func NewImages(cfg Config) (model.ImageModel, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	g := m.(*gemini)
	g.wire.Whole = true
	return &images{g}, nil
}

type images struct{ *gemini }

// Generate implements [model.ImageModel].
func (m *images) Generate(ctx context.Context, req model.ImageRequest) ([]byte, conversation.Usage, error) {
	parts := []*sdk.Part{{Text: req.Description}}
	for _, image := range req.References {
		parts = append(parts, &sdk.Part{InlineData: &sdk.Blob{MIMEType: image.MediaType, Data: image.Data}})
	}
	res, err := m.whole(ctx, []*sdk.Content{{Role: sdk.RoleUser, Parts: parts}})
	var used conversation.Usage
	if err != nil {
		return nil, used, m.wire.Error(ctx, streamError(err))
	}
	if u := res.UsageMetadata; u != nil {
		used = conversation.Usage{Input: int64(max(u.PromptTokenCount, 0)), Output: int64(max(u.CandidatesTokenCount, 0)) + int64(max(u.ThoughtsTokenCount, 0))}
	}
	why := ""
	if f := res.PromptFeedback; f != nil {
		why = string(f.BlockReason)
	}
	for _, c := range res.Candidates {
		if c == nil || c.Content == nil {
			continue
		}
		for _, p := range c.Content.Parts {
			if p != nil && p.InlineData != nil && !p.Thought {
				return p.InlineData.Data, used, model.CheckImage(p.InlineData.Data)
			}
		}
	}
	if len(res.Candidates) > 0 && res.Candidates[0] != nil && why == "" {
		why = string(res.Candidates[0].FinishReason)
	}
	return nil, used, m.wire.Error(ctx, &model.Error{Reason: model.BadReply, Message: fmt.Sprintf("the reply has no image (%s)", why)})
}

// whole requests a reply that is not streamed. It returns a panic of the SDK's
// decoder as an error.
func (m *images) whole(ctx context.Context, contents []*sdk.Content) (res *sdk.GenerateContentResponse, err error) {
	defer func() {
		if r := recover(); r != nil {
			res, err = nil, &model.Error{Reason: model.BadReply, Message: "the reply does not match the API"}
		}
	}()
	return m.models.GenerateContent(ctx, m.cfg.Name, contents, &sdk.GenerateContentConfig{ResponseModalities: []string{"TEXT", "IMAGE"}})
}
