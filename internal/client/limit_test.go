package client

import "testing"

func TestLimited(t *testing.T) {
	for _, c := range []struct {
		limits, used *Amount
		want         string
	}{
		{nil, nil, ""}, {&Amount{}, &Amount{Turns: 3}, ""},
		{&Amount{Turns: 20, CostUSD: 5}, &Amount{Turns: 3, Tokens: 900, CostUSD: 1.254}, "3 of 20 turns, $1.25 of $5.00"},
		{&Amount{Tokens: 5000, Seconds: 3600}, &Amount{Seconds: 90}, "0 of 5000 tokens, 1m30s of 1h0m0s"},
	} {
		if got := (Run{Limits: c.limits, Used: c.used}).Limited(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
