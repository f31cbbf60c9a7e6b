package agent

import (
	"errors"
	"strings"
	"testing"

	"aloft/internal/conversation"

	"github.com/google/go-cmp/cmp"
)

// conversationOf returns the conversation that a model would get, one line per
// block.
func conversationOf(s *State) string {
	var lines []string
	for _, m := range s.Messages {
		for _, b := range m.Blocks {
			switch {
			case b.Call != nil:
				lines = append(lines, string(m.Role)+" calls "+b.Call.ID)
			case b.Result != nil:
				lines = append(lines, string(m.Role)+" answers "+b.Result.CallID)
			case strings.Contains(b.Text, "rewound the conversation"):
				lines = append(lines, "notice")
			default:
				lines = append(lines, string(m.Role)+" "+b.Text)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// twoRuns returns a journal of two runs: the first with turns 1 and 2, the
// second with turn 3.
func twoRuns() []Event {
	return journal(&Created{Name: "n"},
		prompt("do"), reply("look", "a"), &CallDone{CallID: "a", Text: "seen"}, &Notice{Text: "by the way"}, reply("done"), &RunEnded{Status: Finished},
		prompt("more"), reply("more is done"), &RunEnded{Status: Finished})
}

// again appends the events of a retry, and folds the result.
func again(t *testing.T, events []Event, turn int, runID, words string) ([]Event, *State, RewindPoint) {
	t.Helper()
	p, err := RewindTo("bc-1", events, turn, runID)
	if err != nil {
		t.Fatal(err)
	}
	created := &RunCreated{}
	if words != "" {
		created.Prompt = conversation.Text(conversation.User, words)
	}
	for _, e := range append(p.Events(7), Event{RunID: "run-2", Body: created}) {
		e.Seq = int64(len(events) + 1)
		events = append(events, e)
	}
	return events, Fold("bc-1", events), p
}

func TestRewind(t *testing.T) {
	for _, c := range []struct {
		name     string
		turn     int
		words    string
		want     string
		to       int64
		replaced int
		asked    string
	}{
		{"the first turn with its prompt", 1, "do other", "notice\nuser do other", 2, 3, "do other"},
		{"in the middle of a run", 2, "", "user do\nassistant look\nassistant calls a\nuser answers a\nuser by the way\nnotice", 6, 2, "do"},
		{"in the middle with words", 2, "no, look", "user do\nassistant look\nassistant calls a\nuser answers a\nuser by the way\nnotice\nuser no, look", 6, 2, "do|no, look"},
		{"the last run", 3, "less", "user do\nassistant look\nassistant calls a\nuser answers a\nuser by the way\nassistant done\nnotice\nuser less", 8, 1, "do|less"},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, s, p := again(t, twoRuns(), c.turn, "", c.words)
			if diff := cmp.Diff(c.want, conversationOf(s)); diff != "" {
				t.Error(diff)
			}
			if p.To != c.to || p.Replaced != c.replaced || strings.Join(s.Asked, "|") != c.asked {
				t.Errorf("to %d, %d replaced, asked %q", p.To, p.Replaced, s.Asked)
			}
			if s.Next() != NextReply || s.Run.ID != "run-2" {
				t.Errorf("next is %v of %s", s.Next(), s.Run.ID)
			}
			if _, err := RewindTo("bc-1", events, 3, ""); !errors.Is(err, ErrReplaced) {
				t.Errorf("turn 3: %v", err)
			}
		})
	}
}

func TestRewindOfARewind(t *testing.T) {
	events, _, _ := again(t, twoRuns(), 1, "", "do other")
	for _, e := range journal(reply("other"), &RunEnded{Status: Finished}) {
		e.Seq, e.RunID = int64(len(events)+1), "run-2"
		events = append(events, e)
	}
	_, s, p := again(t, events, 4, "", "do it so")
	if got, want := conversationOf(s), "notice\nuser do it so"; got != want || p.Replaced != 1 || p.Prompt.PlainText() != "do other" {
		t.Errorf("%q, %d replaced, after %q", got, p.Replaced, p.Prompt.PlainText())
	}
	if len(s.Asked) != 1 {
		t.Errorf("asked %q", s.Asked)
	}
}

func TestRewindRefuses(t *testing.T) {
	if _, err := RewindTo("bc-1", twoRuns(), 4, ""); !errors.Is(err, ErrNoTurn) {
		t.Error(err)
	}
	summarised := append(twoRuns(), Event{Seq: 11, RunID: "run-1", Body: &Compacted{Summary: "so far"}})
	if _, err := RewindTo("bc-1", summarised, 1, ""); !errors.Is(err, ErrCompacted) {
		t.Error(err)
	}
	// A run that failed before its first reply can be retried. There is no
	// notice about removed turns.
	failed := journal(&Created{}, prompt("do"), &RunEnded{Status: Failed})
	_, s, p := again(t, failed, 0, "run-1", "do")
	if conversationOf(s) != "user do" || len(p.Events(1)) != 1 || p.Turn != 1 {
		t.Errorf("%q, %+v", conversationOf(s), p)
	}
}

func TestQueue(t *testing.T) {
	queued := func(id string) *Queued {
		return &Queued{RunID: id, RunCreated: RunCreated{Prompt: conversation.Text(conversation.User, id)}}
	}
	a := Agent{}
	for _, e := range journal(&Created{}, prompt("do"), queued("run-2"), queued("run-3"), queued("run-4"), &Unqueued{RunID: "run-3"}, &Unqueued{RunID: "run-9"}) {
		a.Apply(e)
	}
	if diff := cmp.Diff([]Waiting{{"run-2", 3}, {"run-4", 5}}, a.Queue); diff != "" {
		t.Error(diff)
	}
	a.Apply(Event{Seq: 8, RunID: "run-2", Body: prompt("run-2")})
	if diff := cmp.Diff([]Waiting{{"run-4", 5}}, a.Queue); diff != "" || !a.Waits("run-4") || a.Waits("run-2") {
		t.Error(diff)
	}
}
