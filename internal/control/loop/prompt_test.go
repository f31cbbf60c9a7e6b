package loop

import (
	"strings"
	"testing"

	"aloft/internal/agent"
)

// Only an agent that sets up a machine gets the instructions for that.
func TestPromptOfTheSetUpHelper(t *testing.T) {
	s := &agent.State{Branch: "aloft/x"}
	plain := systemPrompt(s)
	s.Agent.Env.Preset = agent.VMSetupHelper
	helped := systemPrompt(s)
	if !strings.HasPrefix(helped, plain) || !strings.Contains(helped, "`.aloft/environment.json`") || strings.Contains(plain, "environment.json") {
		t.Errorf("plain:\n%s\nhelped:\n%s", plain, helped)
	}
}

// Prompts name the user that runs the agent's processes in the machine.
func TestPromptsNameTheUser(t *testing.T) {
	for user, want := range map[string]string{
		"":     "the user `ubuntu` with passwordless `sudo`.", // older journals name none
		"node": "the user `node`; `sudo` may not be allowed.",
		"root": "the user `root`.",
	} {
		s := agent.Fold("bc-1", []agent.Event{
			{Seq: 1, Body: &agent.Created{}}, {Seq: 2, Body: &agent.MachineReady{User: user}}, {Seq: 3, Body: &agent.MachineReady{}},
		})
		if got := systemPrompt(s); !strings.Contains(got, want) {
			t.Errorf("the agent is told %q, want %q", got[:400], want)
		}
		if got := subagentPrompt(s, &agent.Subagent{}); !strings.Contains(got, want) {
			t.Errorf("a subagent is told %q, want %q", got[:400], want)
		}
	}
}
