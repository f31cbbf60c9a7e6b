package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/conversation"
)

func TestImageModelConfig(t *testing.T) {
	const key = "images-key-0123456789"
	load := func(text string) (Config, error) {
		file := filepath.Join(t.TempDir(), "aloft.yaml")
		if err := os.WriteFile(file, []byte("image_model: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return LoadConfig(file, func(name string) string { return map[string]string{"IMAGE_KEY": key}[name] })
	}
	for text, cost := range map[string]int64{
		"{provider: openai, name: gpt-image-1, api_key_env: IMAGE_KEY}":                                       0,
		"{provider: openai, name: dall-e-3, api_key_env: IMAGE_KEY, price: {image: 0.04}}":                    40_000_000,
		"{provider: google, name: gemini, api_key_env: IMAGE_KEY, price: {input: 1, output: 2}}":              5_000,
		"{provider: openai, name: sd, base_url: 'http://127.0.0.1:1234/v1', api_key: " + key + "}":            0,
		"{provider: openai, name: sd, api_key: " + key + ", price: {image: 0}}":                               0,
		"{provider: google, name: g, base_url: 'https://g.example', api_key: " + key + ", price: {image: 1}}": 1_000_000_000,
	} {
		c, err := load(text)
		if err != nil || c.SecretValues()["image_model.api_key"] != key {
			t.Errorf("%s: %+v, %v", text, c.ImageModel, err)
			continue
		}
		m, info, err := c.ImageModel.open()
		if m == nil || err != nil || info.Name != c.ImageModel.Name {
			t.Errorf("%s: %v, %+v, %v", text, m, info, err)
		}
		if got := info.Of(conversation.Usage{Input: 1000, Output: 2000}); got.Cost != cost*map[bool]int64{true: 1000, false: 1}[info.Price != nil] {
			t.Errorf("%s: an image costs %d", text, got.Cost)
		}
		if priced := info.Unpriced() == nil; priced != (c.ImageModel.Price != nil) {
			t.Errorf("%s: priced: %v", text, priced)
		}
	}
	for text, want := range map[string]string{
		"{name: x}":                                                           "image_model.provider is missing",
		"{provider: anthropic, name: x}":                                      `image_model.provider: invalid value "anthropic": must be openai or google`,
		"{provider: openai}":                                                  "image_model.name is missing",
		"{provider: google, name: x}":                                         "image_model.api_key is missing",
		"{provider: openai, name: x, api_key_env: NONE}":                      "image_model.api_key_env: the variable NONE is not set",
		"{provider: openai, name: x, base_url: 'a.example'}":                  "image_model.base_url: invalid address",
		"{provider: openai, name: x, base_url: 'https://u:p@a.example'}":      "image_model.base_url: invalid address",
		"{provider: openai, name: x, price: {}}":                              "image_model.price: set either",
		"{provider: openai, name: x, price: {input: 1}}":                      "image_model.price: set either",
		"{provider: openai, name: x, price: {image: 1, input: 1, output: 1}}": "image_model.price: set either",
		"{provider: openai, name: x, price: {image: -1}}":                     "image_model.price: -1 is out of range",
		"{provider: openai, name: x, price: {image: .nan}}":                   "image_model.price: NaN is out of range",
	} {
		if _, err := load(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if m, _, err := DefaultConfig().ImageModel.open(); m != nil || err != nil {
		t.Errorf("without a model: %v, %v", m, err)
	}
}
