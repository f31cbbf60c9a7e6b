package server

import (
	"errors"
	"fmt"
	"net/url"

	"aloft/internal/control/model"
	"aloft/internal/control/model/google"
	"aloft/internal/control/model/openai"
)

// imageConfig configures the model of the tool GenerateImage. Without a model,
// agents do not have the tool.
type imageConfig struct {
	Provider  string            `yaml:"provider"`    // openai, also for servers with the same API, or google
	Name      string            `yaml:"name"`        // the provider's name of the model
	BaseURL   string            `yaml:"base_url"`    // default the provider's own address
	APIKey    string            `yaml:"api_key"`     // the key itself
	APIKeyEnv string            `yaml:"api_key_env"` // or the environment variable with the key
	Price     *imagePriceConfig `yaml:"price"`       // nil if unknown
}

// imagePriceConfig holds prices in US dollars: per million tokens, or per
// image.
type imagePriceConfig struct {
	Input  *float64 `yaml:"input"`
	Output *float64 `yaml:"output"`
	Image  *float64 `yaml:"image"`
}

func (c *imageConfig) check(getenv func(string) string) error {
	if *c == (imageConfig{}) {
		return nil
	}
	if err := fromEnv(&c.APIKey, c.APIKeyEnv, "image_model.api_key", getenv); err != nil {
		return err
	}
	switch c.Provider {
	case "openai":
	case "google":
		if c.APIKey == "" {
			return errors.New("image_model.api_key is missing: google needs one; set api_key_env")
		}
	case "":
		return errors.New("image_model.provider is missing: must be openai or google")
	default:
		return fmt.Errorf("image_model.provider: invalid value %q: must be openai or google", c.Provider)
	}
	if c.Name == "" {
		return errors.New("image_model.name is missing: give the provider's name of the model, such as gpt-image-1")
	}
	if err := checkBase(c.BaseURL, "image_model.base_url"); err != nil {
		return err
	}
	if p := c.Price; p != nil {
		if (p.Image == nil) == (p.Input == nil && p.Output == nil) || (p.Input == nil) != (p.Output == nil) {
			return errors.New("image_model.price: set either image, in US dollars per image, or input and output, in US dollars per million tokens")
		}
		for _, v := range []*float64{p.Input, p.Output, p.Image} {
			if v != nil && (!(*v >= 0) || *v > maxPrice) { // also rejects NaN
				return fmt.Errorf("image_model.price: %v is out of range: must be 0 to %v US dollars", *v, maxPrice)
			}
		}
	}
	return nil
}

// checkBase returns an error unless a base address is empty or a URL.
func checkBase(base, at string) error {
	if base == "" {
		return nil
	}
	if u, err := url.Parse(base); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%s: invalid address %q: use an address such as https://models.example.com/v1, without a user, query or fragment", at, base)
	}
	return nil
}

// open returns the configured model, or nil if there is none.
func (c imageConfig) open() (model.ImageModel, model.ImageInfo, error) {
	info := model.ImageInfo{Name: c.Name}
	if p := c.Price; p != nil {
		info.PerImage = p.Image
		if p.Image == nil {
			info.Price = &model.Price{Input: p.Input, Output: p.Output}
		}
	}
	switch c.Provider {
	case "openai":
		return openai.NewImages(openai.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey}), info, nil
	case "google":
		m, err := google.NewImages(google.Config{Name: c.Name, BaseURL: c.BaseURL, Key: c.APIKey})
		return m, info, err
	}
	return nil, info, nil
}
