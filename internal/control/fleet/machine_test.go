package fleet

import (
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

func fold(bodies ...agent.Body) *agent.State {
	var events []agent.Event
	for i, b := range bodies {
		e := agent.Event{Seq: int64(i + 1), RunID: "run-1", Time: time.Unix(int64(i), 0), Body: b}
		if _, ok := b.(*agent.Created); ok {
			e.RunID = ""
		}
		events = append(events, e)
	}
	return agent.Fold("bc-1", events)
}

func TestWhatIsLost(t *testing.T) {
	prompt := &agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")}
	words := &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "done")}
	made, ready, lost := &agent.MachineMade{MachineID: "m-1"}, &agent.MachineReady{MachineID: "m-1", BootID: "b-1", BaseCommit: "c0ffee"}, &agent.MachineLost{MachineID: "m-1"}
	for _, c := range []struct {
		name   string
		events []agent.Body
		want   string
	}{
		{"FirstMachine", []agent.Body{&agent.Created{}, prompt, made}, ""},
		{"StartedAgain", []agent.Body{&agent.Created{}, prompt, made, ready, lost}, "restarted"},
		{"DiskLost", []agent.Body{&agent.Created{}, prompt, made, ready, lost, &agent.MachineMade{MachineID: "m-2"}}, "lost with its disk"},
		{"OnlyThePushIsLeft", []agent.Body{&agent.Created{}, prompt, made, ready, words, lost}, ""},
		{"WorkIsLostBeforeThePush", []agent.Body{&agent.Created{}, prompt, made, ready, words, lost, &agent.MachineMade{MachineID: "m-2"}}, "lost with its disk"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := whatIsLost(fold(c.events...))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestTokensDiffer(t *testing.T) {
	a, b := &Fleet{Config: Config{Secret: []byte("a")}}, &Fleet{Config: Config{Secret: []byte("b")}}
	seen := map[string]bool{a.token("exec", "1"): true, a.token("exec", "2"): true, a.token("git", "1"): true, b.token("exec", "1"): true}
	if len(seen) != 4 {
		t.Error("two tokens are one")
	}
	again := &Fleet{Config: Config{Secret: []byte("a")}}
	if a.token("exec", "1") != again.token("exec", "1") || len(a.token("exec", "1")) != 64 {
		t.Error("a token is not the same after a restart")
	}
}
