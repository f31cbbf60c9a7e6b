package server

import (
	"errors"
	"fmt"

	"aloft/internal/control/model"
)

// priceConfig holds prices in US dollars per million tokens. Absent prices are unknown.
type priceConfig struct {
	Input      *float64 `yaml:"input"`
	Output     *float64 `yaml:"output"`
	CacheRead  *float64 `yaml:"cache_read"`
	CacheWrite *float64 `yaml:"cache_write"`
}

// check rejects invalid prices.
func (p *priceConfig) check() error {
	if p == nil {
		return nil
	}
	if p.Input == nil || p.Output == nil {
		return errors.New("price: input and output are required, in US dollars per million tokens")
	}
	for _, v := range []*float64{p.Input, p.Output, p.CacheRead, p.CacheWrite} {
		if v != nil && (!(*v >= 0) || *v > maxPrice) { // also rejects NaN
			return fmt.Errorf("price: %v is out of range: must be 0 to %v US dollars per million tokens", *v, maxPrice)
		}
	}
	return nil
}

// price converts p to the type of package model. It returns nil if p is nil.
func (p *priceConfig) price() *model.Price {
	if p == nil {
		return nil
	}
	return &model.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite}
}

// maxPrice is far above any real price; a larger value is treated as a mistake.
const maxPrice = 100_000.0
