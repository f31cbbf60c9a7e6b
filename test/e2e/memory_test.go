package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// A command needs more memory than its machine has. The kernel kills it; the
// model is told which process was killed, and does its work in another way.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("memory", map[string]string{"README.md": "memory\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "head -c 1G /dev/zero | tail | wc -c; true"}}
      - calls:
          - {tool: Shell, args: {command: "echo smaller > done.txt"}}
      - text: Done.
`)+"machine:\n  memory_bytes: 268435456\n")
	r := a.finish(a.create(url, "read it all", nil))
	events := a.events(r.AgentID)
	const words = "killed: the machine ran out of memory (limit 256 MiB); the kernel killed tail "
	if !strings.Contains(events, `"machine.out_of_memory"`) || strings.Count(events, words) != 2 { // once in the event and once in the call's result
		t.Errorf("nobody is told of the kill:\n%s", events)
	}
	if strings.Contains(events, `"machine.lost"`) {
		t.Error("the machine was lost")
	}
	if got := gittest.Git(t, git.Path("memory"), "show", pushed(t, r)+":done.txt"); got != "smaller" {
		t.Errorf("done.txt holds %q", got)
	}
	if shown := a.output("agent", "show", r.AgentID); !strings.Contains(shown, words) {
		t.Errorf("aloft agent show says:\n%s", shown)
	}
}
