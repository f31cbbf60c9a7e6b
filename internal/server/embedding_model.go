package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/control/embed"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/model"
	"aloft/internal/control/model/openai"
)

// embeddingConfig configures the model with which SemSearch ranks code by
// meaning. Without a model, it ranks by keywords.
type embeddingConfig struct {
	Provider  string `yaml:"provider"`    // openai, also for other servers with the same API
	Name      string `yaml:"name"`        // the provider's name of the model
	BaseURL   string `yaml:"base_url"`    // default the provider's own address
	APIKey    string `yaml:"api_key"`     // the key itself
	APIKeyEnv string `yaml:"api_key_env"` // or the environment variable with the key
}

func (c *embeddingConfig) check(getenv func(string) string) error {
	if *c == (embeddingConfig{}) {
		return nil
	}
	if err := fromEnv(&c.APIKey, c.APIKeyEnv, "embedding_model.api_key", getenv); err != nil {
		return err
	}
	switch {
	case c.Provider == "":
		return errors.New("embedding_model.provider is missing: must be openai, which also stands for other servers with /embeddings")
	case c.Provider != "openai":
		return fmt.Errorf("embedding_model.provider: invalid value %q: must be openai, which also stands for other servers with /embeddings", c.Provider)
	case c.Name == "":
		return errors.New("embedding_model.name is missing: give the provider's name of the model, such as text-embedding-3-small")
	}
	return checkBase(c.BaseURL, "embedding_model.base_url")
}

// open returns the configured model, or nil if there is none.
func (c embeddingConfig) open() model.Embedder {
	if c.Provider == "" {
		return nil
	}
	return openai.NewEmbeddings(openai.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey})
}

// openEmbeddings opens the relay of machines to the model for embeddings, if
// one is configured.
func (a *assembly) openEmbeddings(context.Context) error {
	c := a.config.EmbeddingModel
	if m := c.open(); m != nil {
		a.embeddings = embed.New(m, c.Name, func(ctx context.Context, tokens int64) { a.observer.Embedded(ctx, c.Name, tokens) })
	}
	return nil
}

// ProbeEmbeddings requests one embedding from the configured model. Without a
// model, it returns no check.
func ProbeEmbeddings(ctx context.Context, c Config) []container.Check {
	m := c.EmbeddingModel.open()
	if m == nil {
		return nil
	}
	check := container.Check{Name: "embedding model"}
	long := strings.Repeat("func next(i int) int { return i + 1 }\n", 4000/38+1) // the longest that machines send
	vectors, _, err := m.Embed(ctx, []string{long})
	if err != nil {
		check.Detail, check.Fix = err.Error(), "check embedding_model in the configuration; until it works, SemSearch ranks by keywords only"
		return []container.Check{check}
	}
	check.OK, check.Detail = true, fmt.Sprintf("%s answers: vectors of %d numbers", c.EmbeddingModel.Name, len(vectors[0]))
	return []container.Check{check}
}
