package machinerpc

import (
	"errors"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

const key = "sk-the-key-of-a-model"

func TestErrorsOfAMachineAreRedacted(t *testing.T) {
	by := redact.New(map[string]string{"k": key})
	h := redacting{func() *redact.Redactor { return by }}
	err := h.error(connect.NewError(connect.CodeNotFound, errors.New("no "+key)))
	if connect.CodeOf(err) != connect.CodeNotFound || strings.Contains(err.Error(), key) {
		t.Errorf("%v", err)
	}
	if plain := errors.New("x"); !errors.Is(h.error(plain), plain) {
		t.Error("an error that is no answer was replaced")
	}
}

// A redactor applies from the first reply after it was set, even to a secret
// that a terminal splits into two lines.
func TestRepliesAreRedacted(t *testing.T) {
	var by *redact.Redactor
	h := redacting{func() *redact.Redactor { return by }}
	for want, secrets := range map[string]map[string]string{
		"$ echo " + key[:8] + "\n" + key[8:] + " later-secret": nil,
		"$ echo [REDACTED] later-secret":                       {"k": key},
		"$ echo [REDACTED] [REDACTED]":                         {"k": key, "l": "later-secret"},
	} {
		by = redact.New(secrets)
		m := &agentv1.ReadTerminalResponse{Text: "$ echo " + key[:8] + "\n" + key[8:] + " later-secret"}
		h.message(m)
		if m.GetText() != want {
			t.Errorf("with %d secrets: %q, want %q", len(secrets), m.GetText(), want)
		}
	}
}
