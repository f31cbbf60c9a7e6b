package main

import (
	"errors"
	"fmt"

	"aloft/internal/control/model"
)

// priceConfig is in US dollars for a million tokens. What is absent is unknown.
type priceConfig struct {
	Input      *float64 `yaml:"input"`
	Output     *float64 `yaml:"output"`
	CacheRead  *float64 `yaml:"cache_read"`
	CacheWrite *float64 `yaml:"cache_write"`
}

// check refuses what no price is.
func (p *priceConfig) check() error {
	if p == nil {
		return nil
	}
	if p.Input == nil || p.Output == nil {
		return errors.New("price: give input and output, in US dollars for a million tokens")
	}
	for _, v := range []*float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if v != nil && (!(*v >= 0) || *v > maxPrice) { // nor is NaN one
			return fmt.Errorf("price: %v is not from 0 to %v US dollars for a million tokens", *v, maxPrice)
		}
	}
	return nil
}

// price is it as the loop counts; nil where none is given.
func (p *priceConfig) price() *model.Price {
	if p == nil {
		return nil
	}
	return &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
}

// maxPrice is far above any; what is above it was meant for something else.
const maxPrice = 100_000.0
