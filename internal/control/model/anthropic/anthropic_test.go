package anthropic_test

import (
	"testing"

	"aloft/internal/control/model"
	"aloft/internal/control/model/anthropic"
	"aloft/internal/control/model/modeltest"
)

func TestModel(t *testing.T) {
	modeltest.Run(t, modeltest.Provider{
		Start: modeltest.NewAnthropic,
		New: func(_ testing.TB, url, key, name string) model.Model {
			return anthropic.New(anthropic.Config{Name: name, BaseURL: url, Key: key, Thinking: 2048})
		},
		KeepsThinking: true,
	})
}
