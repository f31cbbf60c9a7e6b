package server

import (
	"context"
	"fmt"

	"aloft/internal/control/loop"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/websearch"
)

// searchConfig configures the provider of the tool WebSearch. Without a
// provider, agents do not have the tool.
type searchConfig struct {
	Provider string `yaml:"provider"` // searxng, brave, tavily, exa, anthropic or openai
	Model    string `yaml:"model"`    // the model that searches; required for anthropic and openai
	URL      string `yaml:"url"`      // base address; required for searxng
	Key      string `yaml:"key"`      // the provider's API key
	KeyEnv   string `yaml:"key_env"`  // or the environment variable with the key
	KeyFile  string `yaml:"key_file"` // or the file with the key, relative to the configuration's folder
}

func (c searchConfig) provider() websearch.Config {
	return websearch.Config{Provider: c.Provider, URL: c.URL, Key: c.Key, Model: c.Model}
}

func (c *searchConfig) check(dir string, getenv func(string) string) error {
	if *c == (searchConfig{}) {
		return nil
	}
	if err := fromEnv(&c.Key, c.KeyEnv, "web_search.key", getenv); err != nil {
		return err
	}
	if err := fromFile(&c.Key, dir, c.KeyFile, "web_search.key"); err != nil {
		return err
	}
	if err := c.provider().Check(); err != nil {
		return fmt.Errorf("web_search.%w", err)
	}
	return nil
}

// open returns the configured provider, or nil if there is none.
func (c searchConfig) open() (loop.Web, error) {
	if c.Provider == "" {
		return nil, nil //nolint:nilnil // not configured
	}
	e, err := websearch.New(c.provider())
	if err != nil {
		return nil, fmt.Errorf("web_search.%w", err)
	}
	return e, nil
}

// ProbeWebSearch makes one search with the configured provider. Without a
// provider, it returns no check.
func ProbeWebSearch(ctx context.Context, c Config) []container.Check {
	if c.WebSearch.Provider == "" {
		return nil
	}
	check := container.Check{Name: "web search"}
	e, err := websearch.New(c.WebSearch.provider())
	if err == nil {
		var found []websearch.Result
		if found, err = e.Search(ctx, "software documentation"); err == nil {
			check.OK, check.Detail = true, fmt.Sprintf("%s answers: %d results", e.Provider(), len(found))
			return []container.Check{check}
		}
	}
	check.Detail, check.Fix = err.Error(), "check web_search in the configuration; until it works, agents are offered a search that fails"
	return []container.Check{check}
}
