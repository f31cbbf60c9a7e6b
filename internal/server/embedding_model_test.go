package server

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/embeddingtest"
)

func TestEmbeddingModelConfig(t *testing.T) {
	load := func(text string) (Config, error) {
		file := filepath.Join(t.TempDir(), "aloft.yaml")
		if err := os.WriteFile(file, []byte("embedding_model: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadConfig(file, func(name string) string { return map[string]string{"EMBED_KEY": embeddingtest.Key}[name] })
	}
	c, err := load("{provider: openai, name: text-embedding-3-small, api_key_env: EMBED_KEY}")
	if err != nil || c.EmbeddingModel.open() == nil || c.SecretValues()["embedding_model.api_key"] != embeddingtest.Key {
		t.Errorf("%+v, %v", c.EmbeddingModel, err)
	}
	if c, err = load("{provider: openai, name: nomic-embed-text, base_url: 'http://127.0.0.1:11434/v1'}"); err != nil || c.EmbeddingModel.open() == nil {
		t.Errorf("without a key: %+v, %v", c.EmbeddingModel, err)
	}
	if c, err = load("{}"); err != nil || c.EmbeddingModel.open() != nil {
		t.Errorf("none: %+v, %v", c.EmbeddingModel, err)
	}
	for text, want := range map[string]string{
		"{name: x}":                   "embedding_model.provider is missing",
		"{provider: google, name: x}": `embedding_model.provider: invalid value "google"`,
		"{provider: openai}":          "embedding_model.name is missing",
		"{provider: openai, name: x, api_key_env: NONE}": "embedding_model.api_key_env: the variable NONE is not set",
		"{provider: openai, name: x, base_url: 'host'}":  "embedding_model.base_url: invalid address",
		"{provider: openai, name: x, dimensions: 3}":     "dimensions",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestProbeEmbeddings(t *testing.T) {
	s := embeddingtest.New(t)
	c := DefaultConfig()
	if checks := ProbeEmbeddings(t.Context(), c); len(checks) != 0 {
		t.Errorf("without a model: %+v", checks)
	}
	c.EmbeddingModel = embeddingConfig{Provider: "openai", Name: embeddingtest.Model, BaseURL: s.URL, APIKey: embeddingtest.Key}
	if checks := ProbeEmbeddings(t.Context(), c); len(checks) != 1 || !checks[0].OK || checks[0].Detail != "text-embedding-3-small answers: vectors of 1536 numbers" {
		t.Errorf("when it works: %+v", checks)
	}
	if texts, _ := s.Inputs(); len(texts) != 1 || len(texts[0]) < 4000 {
		t.Errorf("the check sent %d texts, want one as long as a piece of code", len(texts))
	}
	s.Fail(http.StatusBadRequest, 0)
	if checks := ProbeEmbeddings(t.Context(), c); len(checks) != 1 || checks[0].OK || checks[0].Required || checks[0].Fix == "" || !strings.Contains(checks[0].Detail, "had an error") {
		t.Errorf("when it fails: %+v", checks)
	}
}
