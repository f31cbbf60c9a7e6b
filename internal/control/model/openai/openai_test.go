package openai_test

import (
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/control/model/openai"
)

func open(api openai.API) func(testing.TB, string, string, string) model.Model {
	return func(t testing.TB, url, key, name string) model.Model {
		m, err := openai.New(openai.Config{Name: name, API: api, BaseURL: url, Key: key, Effort: "low", Schema: true, Serial: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func TestResponses(t *testing.T) {
	modeltest.Run(t, modeltest.Provider{Start: modeltest.NewResponses, New: open(openai.Responses), KeepsThinking: true})
}

func TestChat(t *testing.T) {
	modeltest.Run(t, modeltest.Provider{Start: modeltest.NewChat, New: open(openai.Chat)})
}

func TestUnknownAPI(t *testing.T) {
	if _, err := openai.New(openai.Config{API: "completions"}); err == nil {
		t.Fatal("want an error")
	}
}
