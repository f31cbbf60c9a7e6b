package openai_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/model"
	"aloft/internal/control/model/openai"
	"aloft/internal/embeddingtest"
)

func TestEmbeddings(t *testing.T) {
	s := embeddingtest.New(t)
	embed := func(name, key string, texts ...string) ([][]float32, int64, error) {
		return openai.NewEmbeddings(openai.Config{Name: name, BaseURL: s.URL + "/", Key: key}).Embed(t.Context(), texts)
	}
	one, _, err := embed(embeddingtest.Model, embeddingtest.Key, "a kite")
	if err != nil {
		t.Fatal(err)
	}
	two, tokens, err := embed(embeddingtest.Model, embeddingtest.Key, "a boat", "a kite")
	if err != nil || tokens != 4 || len(two) != 2 || !cmp.Equal(two[1], one[0]) || cmp.Equal(two[0], one[0]) {
		t.Errorf("%d vectors, %d tokens, %v: want those of both texts, in order", len(two), tokens, err)
	}

	// A server may send the vectors in another order, or without indexes.
	s.Send(func(v [][]float32) any {
		return map[string]any{"data": []map[string]any{{"index": 1, "embedding": v[1]}, {"index": 0, "embedding": v[0]}}}
	})
	if swapped, tokens, err := embed(embeddingtest.Model, embeddingtest.Key, "a boat", "a kite"); err != nil || tokens != 0 || !cmp.Equal(swapped, two) {
		t.Errorf("in another order: %d tokens, %v", tokens, err)
	}
	s.Send(func(v [][]float32) any {
		return map[string]any{"data": []map[string]any{{"embedding": v[0]}, {"embedding": v[1]}}}
	})
	if plain, _, err := embed(embeddingtest.Model, embeddingtest.Key, "a boat", "a kite"); err != nil || !cmp.Equal(plain, two) {
		t.Errorf("without indexes: %v", err)
	}
	s.Send(nil)

	reason := func(_ [][]float32, _ int64, err error) model.Reason {
		e, ok := errors.AsType[*model.Error](err)
		if !ok || strings.Contains(err.Error(), embeddingtest.Key) {
			t.Errorf("got %v", err)
			return ""
		}
		return e.Reason
	}
	got := map[string]model.Reason{
		"wrong key":     reason(embed(embeddingtest.Model, "sk-wrong", "x")),
		"unknown model": reason(embed("text-embedding-9", embeddingtest.Key, "x")),
		"an empty text": reason(embed(embeddingtest.Model, embeddingtest.Key, "x", "")),
	}
	s.Fail(http.StatusTooManyRequests, 0)
	got["busy"] = reason(embed(embeddingtest.Model, embeddingtest.Key, "x"))
	s.Fail(0, 0)
	for what, data := range map[string][]map[string]any{
		"too few":          {{"index": 0, "embedding": []float32{1}}},
		"one twice":        {{"index": 0, "embedding": []float32{1}}, {"index": 0, "embedding": []float32{1}}},
		"one too many":     {{"index": 0, "embedding": []float32{1}}, {"index": 1, "embedding": []float32{1}}, {"index": 2, "embedding": []float32{1}}},
		"unequal widths":   {{"index": 0, "embedding": []float32{1}}, {"index": 1, "embedding": []float32{1, 0}}},
		"no direction":     {{"index": 0, "embedding": []float32{1}}, {"index": 1, "embedding": []float32{0}}},
		"too wide":         {{"index": 0, "embedding": make([]float32, 5000)}, {"index": 1, "embedding": make([]float32, 5000)}},
		"words":            {{"index": 0, "embedding": "one"}, {"index": 1, "embedding": "two"}},
		"a negative index": {{"index": -1, "embedding": []float32{1}}},
	} {
		s.Send(func([][]float32) any { return map[string]any{"data": data} })
		got[what] = reason(embed(embeddingtest.Model, embeddingtest.Key, "x", "y"))
	}
	want := map[string]model.Reason{
		"wrong key": model.Unauthorized, "unknown model": model.NotFound, "an empty text": model.BadRequest, "busy": model.RateLimited,
		"too few": model.BadReply, "one twice": model.BadReply, "one too many": model.BadReply, "unequal widths": model.BadReply,
		"no direction": model.BadReply, "too wide": model.BadReply, "words": model.BadReply, "a negative index": model.BadReply,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestEmbeddingsOfAFullRequest checks that the largest reply that the limits allow is
// read: as many vectors as one request may have, of the greatest width.
func TestEmbeddingsOfAFullRequest(t *testing.T) {
	s := embeddingtest.New(t)
	s.Send(func(v [][]float32) any {
		var data []map[string]any
		for i := range v {
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": slices.Repeat([]float32{0.0123456789}, model.MaxEmbeddingWidth)})
		}
		return map[string]any{"object": "list", "data": data, "model": embeddingtest.Model, "usage": map[string]int{"prompt_tokens": 96, "total_tokens": 96}}
	})
	texts := slices.Repeat([]string{"a kite"}, model.MaxEmbedded)
	vectors, _, err := openai.NewEmbeddings(openai.Config{Name: embeddingtest.Model, BaseURL: s.URL, Key: embeddingtest.Key}).Embed(t.Context(), texts)
	if err != nil || len(vectors) != len(texts) || len(vectors[0]) != model.MaxEmbeddingWidth {
		t.Errorf("%d vectors: %v", len(vectors), err)
	}
}
