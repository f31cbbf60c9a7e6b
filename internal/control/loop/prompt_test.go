package loop

import (
	"strings"
	"testing"

	"aloft/internal/agent"
)

// An agent that sets a machine up is told how, and no other is.
func TestPromptOfTheSetUpHelper(t *testing.T) {
	s := &agent.State{Branch: "aloft/x"}
	plain := systemPrompt(s)
	s.Agent.Env.Preset = agent.VMSetupHelper
	helped := systemPrompt(s)
	if !strings.HasPrefix(helped, plain) || !strings.Contains(helped, "`.aloft/environment.json`") || strings.Contains(plain, "environment.json") {
		t.Errorf("plain:\n%s\nhelped:\n%s", plain, helped)
	}
}
