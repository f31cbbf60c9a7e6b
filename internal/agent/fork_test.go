package agent

import (
	"errors"
	"testing"

	"aloft/internal/conversation"
)

func TestPointAt(t *testing.T) {
	call := conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "c", Name: "Shell"}}}}
	say := func(words string) *TurnReplied {
		return &TurnReplied{Message: conversation.Text(conversation.Assistant, words)}
	}
	var events []Event
	for i, b := range []Body{
		&Created{Name: "one", UserID: 7, Repos: []Repo{{URL: "a"}, {URL: "b", StartingRef: "main"}}, WorkOnCurrentBranch: true},
		&RunCreated{Prompt: conversation.Text(conversation.User, "do")},
		&MachineMade{MachineID: "m", Origin: "origin", RulesAt: "rules"}, &MachineReady{MachineID: "m", BootID: "b", BaseCommit: "base", Others: []Checkout{{BaseCommit: "other"}}},
		&TurnReplied{Message: call}, &CallDone{CallID: "c", Text: "result"},
		say("done"), &Pushed{RepoURL: "a", Commit: "pushed"}, &RunEnded{Status: Finished},
		&RunCreated{Prompt: conversation.Text(conversation.User, "more")},
		&Compacted{Summary: "so far"}, say("done too"), &RunEnded{Status: Finished},
	} {
		e := Event{Seq: int64(i + 1), RunID: "run", Body: b}
		if i == 0 {
			e.RunID = ""
		}
		events = append(events, e)
	}
	for _, c := range []struct {
		turn, messages int
		last           bool
		a, b           string // commits from which a machine without the disk starts
	}{
		{0, 2, true, "pushed", "other"},
		{1, 3, false, "base", "other"}, // the call has its result
		{2, 4, false, "pushed", "other"},
		{3, 2, true, "pushed", "other"},
	} {
		p, err := PointAt("bc-1", events, c.turn)
		if err != nil || len(p.State.Messages) != c.messages || p.Last != c.last || len(p.State.Calls) > 0 {
			t.Errorf("turn %d: %v, last %v, %d messages, %d calls", c.turn, err, p.Last, len(p.State.Messages), len(p.State.Calls))
		}
		made, _ := p.Events("two", "branch", "", "")[0].Body.(*Created)
		if made.Repos[0].StartingRef != c.a || made.Repos[1].StartingRef != c.b || made.WorkOnCurrentBranch || made.Branch != "branch" || made.UserID != 7 {
			t.Errorf("turn %d: %+v", c.turn, made)
		}
	}
	for _, turn := range []int{-1, 4} {
		if _, err := PointAt("bc-1", events, turn); !errors.Is(err, ErrNoTurn) {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
	p, _ := PointAt("bc-1", events, 0)
	fork := Fold("bc-2", nil)
	for i, e := range p.Events("two", "branch", "layer", "") {
		e.Seq = int64(i + 1)
		fork.Apply(e)
	}
	if fork.Checkout(0) != (Checkout{BaseCommit: "base", Branch: "branch"}) || fork.Checkout(1) != (Checkout{BaseCommit: "other", Branch: "branch"}) {
		t.Errorf("checkouts %+v, %+v", fork.Checkout(0), fork.Checkout(1))
	}
	if fork.Agent.RulesAt != "rules" || fork.Agent.Origin != "" {
		t.Errorf("the fork's rules are of %q, it began at %q", fork.Agent.RulesAt, fork.Agent.Origin)
	}
	if fork.Number() <= p.State.Number() {
		t.Errorf("calls are numbered from %d, and the other's are up to %d", fork.Number(), p.State.Number())
	}
}
