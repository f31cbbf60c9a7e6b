package stream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

func TestUntold(t *testing.T) {
	for _, c := range []struct{ told, whole, want string }{
		{"", "hello", "hello"}, {"hello", "hello", ""}, {"hel", "hello", "lo"},
		{"helhello wo", "hello world", "rld"}, {"xyz", "hello", "hello"}, {"aab", "aaab", "aaab"}, {"aaab", "aab", ""},
		{"hello", "", ""}, {"hellohello", "hello", ""}, {"abcab", "abcabcd", "cd"},
	} {
		if got := untold(c.told, c.whole); got != c.want {
			t.Errorf("untold(%q, %q) = %q, want %q", c.told, c.whole, got, c.want)
		}
	}
}

func TestLongResultsAreCut(t *testing.T) {
	long, _ := json.Marshal(map[string]any{"success": map[string]any{"stdout": strings.Repeat("x", 1<<20), "exitCode": 0}})
	v, cut := bounded(long)
	out, err := rest.Marshal(v)
	if err != nil || !cut || len(out) > maxShown || !strings.Contains(string(out), `"exitCode":0`) {
		t.Errorf("cut %v, %d bytes, %v", cut, len(out), err)
	}
	many, _ := json.Marshal(make([]int, 1<<19))
	if v, cut := bounded(many); v != nil || !cut {
		t.Errorf("what cannot be shortened is left out: %v", cut)
	}
}

// TestStreamOfASubagent checks that a subagent's events appear as updates of
// the call that started it, and not among the agent's own messages and calls.
func TestStreamOfASubagent(t *testing.T) {
	in := func(b agent.Body) agent.Body { return &agent.Within{CallID: "call_2_0", Body: b} }
	call := func(id, name string) conversation.Message {
		return conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: id, Name: name, Args: []byte(`{}`)}}}}
	}
	p := newProjector("bc-1", "run-1", agents.Branches{})
	var plain, updates []string
	for i, b := range []agent.Body{
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, "go")},
		&agent.TurnReplied{Message: call("call_2_0", "Task")},
		&agent.CallSent{CallID: "call_2_0"},
		&agent.TaskBegan{CallID: "call_2_0", ID: "call_2_0", Type: "explore"},
		in(&agent.TextDelta{Text: "I look"}),
		in(&agent.TurnReplied{Message: call("call_2_0_0_0", "Grep"), Usage: conversation.Usage{Output: 7}}),
		in(&agent.CallSent{CallID: "call_2_0_0_0"}),
		in(&agent.CallDone{CallID: "call_2_0_0_0", Text: "found"}),
		&agent.TaskEnded{CallID: "call_2_0"},
		&agent.CallDone{CallID: "call_2_0", Text: "found"},
	} {
		for _, f := range p.frames(agent.Event{Seq: int64(i + 1), RunID: "run-1", Time: time.Unix(int64(i+1), 0), Body: b}) {
			if f.event != "" {
				plain = append(plain, f.event)
			}
			if u, ok := f.twin.(update); ok && u["type"] == "tool-call-delta" {
				if u["callId"] != "call_2_0" {
					t.Errorf("an update of %v", u["callId"])
				}
				if inner, ok := u["taskUpdate"].(update); ok {
					updates = append(updates, fmt.Sprint(inner["type"]))
				}
			}
		}
	}
	if want := []string{"tool_call", "tool_call"}; !slices.Equal(plain, want) {
		t.Errorf("plain events %q", plain)
	}
	if want := []string{"step-started", "text-delta", "token-delta", "tool-call-started", "tool-call-completed", "step-completed"}; !slices.Equal(updates, want) {
		t.Errorf("updates %q", updates)
	}
	if p.usage.Output != 7 {
		t.Errorf("the turn has used %+v", p.usage)
	}
}

func TestRetentionOfStream(t *testing.T) {
	touched := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	a := agent.Agent{UpdatedAt: touched}
	ended := agent.Run{Ending: agent.Ending{EndedAt: touched}}
	for _, c := range []struct {
		days  int
		run   agent.Run
		after time.Duration
		want  time.Duration
	}{
		{0, ended, time.Hour, keptForever},
		{2, ended, 47 * time.Hour, time.Hour},
		{2, ended, 49 * time.Hour, 0}, // the next sweep deletes it
		{2, agent.Run{}, 49 * time.Hour, 48 * time.Hour},
	} {
		if got := retention(account.Settings{RetentionDays: c.days}, a, c.run, touched.Add(c.after)); got != c.want {
			t.Errorf("%d days, %v later: %v, want %v", c.days, c.after, got, c.want)
		}
	}
}

func FuzzLastEventID(f *testing.F) {
	run := agent.Run{ID: "run-1", FirstSeq: 2, LastSeq: 1 << 40}
	f.Add(eventID(framePosition{7, 3}, run.ID))
	f.Add(eventID(framePosition{7, 3}, "run-2"))
	f.Add("00000000000007--0003-4e65d3fb")
	f.Add("x")
	own := eventID(framePosition{7, 0}, run.ID)
	for _, bad := range []string{own + "0", strings.ToUpper(own) + " ", "-" + own, eventID(framePosition{run.LastSeq + 9, 0}, run.ID)} {
		f.Add(bad)
	}
	f.Fuzz(func(t *testing.T, id string) {
		p, err := lastEvent(id, run)
		if err != nil {
			if f := fault.Of(err); f.Kind != fault.KindInvalid || f.Message == "" {
				t.Errorf("not a fault of the request: %v", err)
			}
			return
		}
		if id != "" && (eventID(p, run.ID) != id || p.seq < run.FirstSeq || p.seq > run.LastSeq) {
			t.Errorf("%q is read as %v", id, p)
		}
	})
}

// BenchmarkReplay measures the cost of a reconnecting client: it projects all
// 10,000 events of a run.
func BenchmarkReplay(b *testing.B) {
	const n = 10_000
	events := make([]agent.Event, 0, n)
	for i := range n {
		events = append(events, agent.Event{Seq: int64(i + 1), RunID: "run-1", Time: time.Unix(int64(i), 0), Body: &agent.TextDelta{Text: "some words of a reply"}})
	}
	run := agent.Run{ID: "run-1", Status: agent.Running, FirstSeq: 1, LastSeq: n}
	for _, last := range []int64{0, n} {
		b.Run(fmt.Sprintf("after=%d", last), func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				v := newView(run, framePosition{seq: last, sub: 1}, agents.Branches{})
				for _, e := range events {
					v.show(e, &out)
				}
			}
		})
	}
}
