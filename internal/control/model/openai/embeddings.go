package openai

import (
	"context"
	"encoding/json"
	"math"

	"aloft/internal/control/model"
)

// NewEmbeddings returns a model that computes embeddings with the API of cfg:
// /embeddings, which Ollama, vLLM and llama.cpp also implement. It does not
// connect. Of cfg it uses Name, BaseURL, Key and Client.
func NewEmbeddings(cfg Config) model.Embedder {
	c := newClient(cfg)
	c.wire.Values = model.MaxEmbedded * (model.MaxEmbeddingWidth + 16) // 16 for the other fields of each
	return &embeddings{c}
}

type embeddings struct{ client }

// Embed implements [model.Embedder].
func (m *embeddings) Embed(ctx context.Context, texts []string) ([][]float32, int64, error) {
	vectors, tokens, err := m.embed(ctx, texts)
	if err != nil {
		return nil, 0, m.wire.Error(ctx, err)
	}
	return vectors, tokens, nil
}

func (m *embeddings) embed(ctx context.Context, texts []string) ([][]float32, int64, error) {
	body, err := json.Marshal(map[string]any{"model": m.cfg.Name, "input": texts, "encoding_format": "float"})
	if err != nil {
		return nil, 0, err
	}
	var reply struct {
		Data []struct {
			Index     *int      `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage struct {
			Prompt int64 `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := m.document(ctx, "/embeddings", "application/json", body, &reply); err != nil {
		return nil, 0, err
	}
	out := make([][]float32, len(texts))
	for i, d := range reply.Data {
		at := i // some servers omit the index
		if d.Index != nil {
			at = *d.Index
		}
		if at < 0 || at >= len(out) || out[at] != nil {
			return nil, 0, badReply("the reply has embeddings that were not requested")
		}
		out[at] = d.Embedding
	}
	for _, v := range out {
		if err := checkVector(v, len(out[0])); err != nil {
			return nil, 0, err
		}
	}
	return out, max(reply.Usage.Prompt, 0), nil
}

// checkVector returns an error unless v has the given width and a direction.
func checkVector(v []float32, width int) error {
	switch {
	case len(v) == 0:
		return badReply("the reply lacks embeddings")
	case len(v) > model.MaxEmbeddingWidth:
		return badReply("the embeddings have %d numbers, and at most %d are supported", len(v), model.MaxEmbeddingWidth)
	case len(v) != width:
		return badReply("the embeddings differ in width: %d and %d numbers", width, len(v))
	}
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 || math.IsInf(sum, 0) {
		return badReply("an embedding has no direction")
	}
	return nil
}
