package prompt

import (
	"strings"
	"testing"

	"aloft/internal/agent"
)

// Only an agent that sets up a machine gets the instructions for setting one
// up.
func TestPromptOfTheSetUpHelper(t *testing.T) {
	s := &agent.State{WorkRecord: agent.WorkRecord{Branch: "aloft/x"}}
	plain := System(s)
	s.Agent.Env.Preset = agent.VMSetupHelper
	helped := System(s)
	if !strings.HasPrefix(helped, plain) || !strings.Contains(helped, "`.aloft/environment.json`") || strings.Contains(plain, "environment.json") {
		t.Errorf("plain:\n%s\nhelped:\n%s", plain, helped)
	}
}

// Prompts name the user that runs the agent's processes in the machine.
func TestPromptsNameTheUser(t *testing.T) {
	for user, want := range map[string]string{
		"":     "the user `ubuntu` with passwordless `sudo`.", // older journals name no user
		"node": "the user `node`; `sudo` may not be allowed.",
		"root": "the user `root`.",
	} {
		s := agent.Fold("bc-1", []agent.Event{
			{Seq: 1, Body: &agent.Created{}}, {Seq: 2, Body: &agent.MachineReady{User: user}}, {Seq: 3, Body: &agent.MachineReady{}},
		})
		if got := System(s); !strings.Contains(got, want) {
			t.Errorf("the agent is told %q, want %q", got[:400], want)
		}
		if got := Subagent(s, &agent.Subagent{}); !strings.Contains(got, want) {
			t.Errorf("a subagent is told %q, want %q", got[:400], want)
		}
	}
}

// Prompts describe the machine's facilities, as the machine first reported
// them.
func TestPromptsSayWhatTheMachineHas(t *testing.T) {
	for _, tt := range []struct {
		user  string
		has   agent.Facilities
		wants []string
	}{
		{"ubuntu", agent.Facilities{System: "Debian GNU/Linux 12 (bookworm)", PackageManager: "apt-get", Root: true, Docker: "absent"}, []string{
			"the user `ubuntu` with passwordless `sudo`.", "The system is Debian GNU/Linux 12 (bookworm).", "`sudo apt-get update && sudo apt-get install -y NAME`", "Docker is not installed.", "There is no desktop.",
		}},
		{"root", agent.Facilities{PackageManager: "apk", Root: true, Docker: "installed", Desktop: true}, []string{"A desktop is installed", "the user `root`.", "`apk add NAME`", "`service docker start`"}},
		{"node", agent.Facilities{PackageManager: "dnf", Docker: "refused"}, []string{"the user `node`, who cannot become root", "You cannot install system packages", "Docker cannot run in this machine"}},
		{"ubuntu", agent.Facilities{Root: true, Docker: "installable"}, []string{"Docker is not installed. If you need it, install it, and start it with `sudo service docker start`."}},
		{"ubuntu", agent.Facilities{Root: true, Docker: "installed", DockerHostNetwork: true}, []string{"Its containers have no network of their own", "`docker run --network=host`"}},
		{"ubuntu", agent.Facilities{}, []string{"who cannot become root", "There is no system package manager"}},
	} {
		s := agent.Fold("bc-1", []agent.Event{
			{Seq: 1, Body: &agent.Created{}}, {Seq: 2, Body: &agent.MachineReady{User: tt.user, Facilities: &tt.has}},
			{Seq: 3, Body: &agent.MachineReady{Facilities: &agent.Facilities{System: "another"}}},
		})
		for _, words := range []string{System(s), Subagent(s, &agent.Subagent{})} {
			for _, want := range tt.wants {
				if !strings.Contains(words, want) || strings.Contains(words, "another") {
					t.Errorf("%+v: a prompt lacks %q:\n%s", tt.has, want, words[:900])
				}
			}
		}
	}
}

// An environment may tell the agent not to run tests.
func TestPromptOfAnUntestedProject(t *testing.T) {
	for untested, want := range map[bool]string{false: "Run the project's tests", true: "run no tests"} {
		s := agent.Fold("bc-1", []agent.Event{{Seq: 1, Body: &agent.Created{}}, {Seq: 2, Body: &agent.MachineMade{Untested: untested}}})
		if got := System(s); !strings.Contains(got, want) || strings.Contains(got, "{{") {
			t.Errorf("with untested = %v, the prompt is\n%s", untested, got)
		}
	}
}
