package agent

import (
	"testing"
	"time"

	"aloft/internal/allowance"
	"aloft/internal/conversation"
)

// TestUsed folds runs whose events are ten seconds apart.
func TestUsed(t *testing.T) {
	asked := func(id string) Body { return &ApprovalAsked{Approval: Approval{ID: id}} }
	answered := func(id string) Body { return &ApprovalAnswered{ApprovalID: id} }
	replied := &TurnReplied{Usage: conversation.Usage{Input: 3, Output: 2, Cost: 7, Priced: 5}}
	for _, c := range []struct {
		name   string
		events []Body
		want   allowance.Amount // ten seconds after the last event
	}{
		{"NotBegun", []Body{&RunCreated{}}, allowance.Amount{}},
		{"Works", []Body{&RunCreated{}, &RunStarted{}, &Notice{}}, allowance.Amount{Seconds: 20}},
		{"WaitsForAPerson", []Body{&RunCreated{}, &RunStarted{}, asked("a"), &Notice{}, &Notice{}}, allowance.Amount{Seconds: 10}},
		{"WasAnswered", []Body{&RunCreated{}, &RunStarted{}, asked("a"), &Notice{}, answered("a"), &Notice{}}, allowance.Amount{Seconds: 30}},
		{"WaitsForTwo", []Body{&RunCreated{}, &RunStarted{}, asked("a"), asked("b"), answered("a"), answered("a"), &Notice{}}, allowance.Amount{Seconds: 10}},
		{"Paused", []Body{&RunCreated{}, &RunStarted{}, &Paused{}, &Paused{}, &Notice{}, &Resumed{}}, allowance.Amount{Seconds: 20}},
		{"BeganPaused", []Body{&RunCreated{}, &RunStarted{Paused: true}, &Notice{}, &Resumed{}}, allowance.Amount{Seconds: 10}},
		{"PausedBeforeItBegan", []Body{&RunCreated{}, &Paused{}, &RunStarted{}, &Notice{}}, allowance.Amount{}},
		{"Ended", []Body{&RunCreated{}, &RunStarted{}, &RunEnded{Status: Finished}}, allowance.Amount{Seconds: 10}},
		{"WithASubagent", []Body{&RunCreated{}, &RunStarted{}, replied, &Within{CallID: "c", Body: replied}, &Compacted{Usage: replied.Usage}},
			allowance.Amount{Turns: 1, Tokens: 15, Cost: 21, Seconds: 40}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := time.Unix(1000, 0)
			var r Run
			for i, b := range c.events {
				r.Apply(Event{Seq: int64(i + 1), RunID: "run-1", Time: at, Body: b})
				at = at.Add(10 * time.Second)
			}
			if got := r.Used(at); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
