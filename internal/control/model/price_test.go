package model

import (
	"testing"

	"aloft/internal/conversation"
)

func TestPrice(t *testing.T) {
	dollars := func(f float64) *float64 { return &f }
	used := conversation.Usage{Input: 1_000_000, Output: 200_000, CacheRead: 10}
	for _, c := range []struct {
		price        *Price
		cost, priced int64
	}{
		{nil, 0, 0},
		{&Price{}, 0, 0},
		{&Price{Input: dollars(0), Output: dollars(0), CacheRead: dollars(0)}, 0, 1_200_010},
		{&Price{Input: dollars(3), Output: dollars(15)}, 6_000_000_000, 1_200_000},
		{&Price{Input: dollars(3), Output: dollars(15), CacheRead: dollars(0.3)}, 6_000_003_000, 1_200_010},
	} {
		if got := c.price.Of(used); got.Cost != c.cost || got.Priced != c.priced || got.Total() != used.Total() {
			t.Errorf("%+v: %+v", c.price, got)
		}
	}
	twice := (&Price{Input: dollars(1)}).Of(used).Add((&Price{Input: dollars(2)}).Of(used))
	if twice.Cost != 3_000_000_000 || twice.Priced != 2_000_000 {
		t.Errorf("%+v", twice)
	}
}
