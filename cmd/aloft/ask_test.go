package main

import (
	"testing"

	"aloft/internal/client"
)

func TestReadAnswer(t *testing.T) {
	for line, want := range map[string]client.Answer{
		"y": {Decision: client.AllowOnce}, " Yes ": {Decision: client.AllowOnce}, "a": {Decision: client.AllowAgent}, "always": {Decision: client.AllowAlways},
		"n": {Decision: client.Deny}, "n use make test": {Decision: client.Deny, Message: "use make test"}, "deny": {Decision: client.Deny},
		"": {}, "yes please": {Decision: client.AllowOnce}, "maybe": {},
	} {
		got, ok := readAnswer(line)
		if ok != (want.Decision != "" && line != "yes please") || ok && (got.Decision != want.Decision || got.Message != want.Message) {
			t.Errorf("%q: %+v, %v", line, got, ok)
		}
	}
}
