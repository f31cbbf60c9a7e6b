package main

import "testing"

func TestHitRate(t *testing.T) {
	for _, tt := range []struct {
		name     string
		requests []string
		want     float64 // -1 for an error
	}{
		{"a message more", []string{`{"tools":["t"],"messages":["aaa"]}`, `{"tools":["t"],"messages":["aaa","bbbbbb"]}`}, 0.5},
		{"another tool", []string{`{"tools":["t"],"messages":["aaa"]}`, `{"tools":["u"],"messages":["aaa"]}`}, 0},
		{"a tool less", []string{`{"tools":["t","u"],"messages":["aaa"]}`, `{"tools":["t"],"messages":["aaaa"]}`}, 1.0 / 3},
		{"a changed first message", []string{`{"messages":["aaa","b"]}`, `{"messages":["aab","b"]}`}, 0},
		{"one request", []string{`{"messages":["aaa"]}`}, -1},
	} {
		var bodies [][]byte
		for _, r := range tt.requests {
			bodies = append(bodies, []byte(r))
		}
		got, err := hitRate(bodies)
		if err != nil {
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: %v, %v, want %v", tt.name, got, err, tt.want)
		}
	}
}
