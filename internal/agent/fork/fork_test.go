package fork

import (
	"errors"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

func TestAt(t *testing.T) {
	call := conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "c", Name: "Shell"}}}}
	say := func(words string) *agent.TurnReplied {
		return &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, words)}
	}
	var events []agent.Event
	for i, b := range []agent.Body{
		&agent.Created{Name: "one", UserID: 7, Repos: []agent.Repo{{URL: "a"}, {URL: "b", StartingRef: "main"}}, WorkOnCurrentBranch: true},
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")},
		&agent.MachineMade{MachineID: "m", Origin: "origin", RulesAt: "rules"}, &agent.MachineReady{MachineID: "m", BootID: "b", BaseCommit: "base", Others: []agent.Checkout{{BaseCommit: "other"}}},
		&agent.TurnReplied{Message: call}, &agent.CallDone{CallID: "c", Text: "result"},
		say("done"), &agent.Pushed{RepoURL: "a", Commit: "pushed"}, &agent.RunEnded{Status: agent.Finished},
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, "more")},
		&agent.Compacted{Summary: "so far"}, say("done too"), &agent.RunEnded{Status: agent.Finished},
	} {
		e := agent.Event{Seq: int64(i + 1), RunID: "run", Body: b}
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
		p, err := At("bc-1", events, c.turn)
		if err != nil || len(p.State.Messages) != c.messages || p.Last != c.last || len(p.State.Calls) > 0 {
			t.Errorf("turn %d: %v, last %v, %d messages, %d calls", c.turn, err, p.Last, len(p.State.Messages), len(p.State.Calls))
		}
		made, _ := Events(p, "two", "branch", "", "")[0].Body.(*agent.Created)
		if made.Repos[0].StartingRef != c.a || made.Repos[1].StartingRef != c.b || made.WorkOnCurrentBranch || made.Branch != "branch" || made.UserID != 7 {
			t.Errorf("turn %d: %+v", c.turn, made)
		}
	}
	for _, turn := range []int{-1, 4} {
		if _, err := At("bc-1", events, turn); !errors.Is(err, agent.ErrNoTurn) {
			t.Errorf("turn %d: %v", turn, err)
		}
	}
	p, _ := At("bc-1", events, 0)
	fork := agent.Fold("bc-2", nil)
	for i, e := range Events(p, "two", "branch", "layer", "") {
		e.Seq = int64(i + 1)
		fork.Apply(e)
	}
	if fork.Checkout(0) != (agent.Checkout{BaseCommit: "base", Branch: "branch"}) || fork.Checkout(1) != (agent.Checkout{BaseCommit: "other", Branch: "branch"}) {
		t.Errorf("checkouts %+v, %+v", fork.Checkout(0), fork.Checkout(1))
	}
	if fork.Agent.RulesAt != "rules" || fork.Agent.Origin != "" {
		t.Errorf("the fork's rules are of %q, it began at %q", fork.Agent.RulesAt, fork.Agent.Origin)
	}
	if fork.Number() <= p.State.Number() {
		t.Errorf("calls are numbered from %d, and the other's are up to %d", fork.Number(), p.State.Number())
	}
}

// TestKept checks that a fork keeps the mode and the ended subagents of the
// original.
func TestKept(t *testing.T) {
	var events []agent.Event
	for i, b := range []agent.Body{
		&agent.Created{Name: "one"},
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, "do"), Mode: agent.ModePlan},
		&agent.TurnReplied{Message: conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Call: &conversation.ToolCall{ID: "c1", Name: agent.TaskTool}}}}},
		&agent.TaskBegan{CallID: "c1", ID: "c1", Prompt: "look"},
		&agent.Within{CallID: "c1", Body: &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "two")}},
		&agent.TaskEnded{CallID: "c1"},
		&agent.CallDone{CallID: "c1", Text: "two"},
	} {
		events = append(events, agent.Event{Seq: int64(i + 1), RunID: "run", Body: b})
	}
	p, err := At("bc-1", events, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := agent.Fold("bc-2", nil)
	for i, e := range Events(p, "two", "branch", "", "") {
		e.Seq = int64(i + 1)
		s.Apply(e)
	}
	if s.Mode != agent.ModePlan {
		t.Errorf("the fork is in the mode %q", s.Mode)
	}
	if sub := s.Subagent("c1"); sub == nil || sub.LastWords() != "two" || sub.Busy {
		t.Errorf("the fork has %+v", s.Subagents)
	}
}

// TestReplacedTurn checks that a fork can start from a turn that was replaced.
func TestReplacedTurn(t *testing.T) {
	var events []agent.Event
	for i, b := range []agent.Body{
		&agent.Created{Name: "one"},
		&agent.RunCreated{Prompt: conversation.Text(conversation.User, "do")},
		&agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "old")}, &agent.RunEnded{Status: agent.Finished},
		&agent.Rewound{To: 3, Turn: 1},
		&agent.RunCreated{}, &agent.TurnReplied{Message: conversation.Text(conversation.Assistant, "new")},
	} {
		events = append(events, agent.Event{Seq: int64(i + 1), RunID: "run", Body: b})
	}
	for turn, want := range map[int]string{1: "old", 2: "new"} {
		if p, err := At("bc-1", events, turn); err != nil || p.State.LastWords() != want {
			t.Errorf("turn %d: %q, %v; want %q", turn, p.State.LastWords(), err, want)
		}
	}
}

// TestOutsiders checks that an agent, and each fork of it, remembers whether its
// conversation began on a pull request, and whether an event has started one of its runs.
func TestOutsiders(t *testing.T) {
	t.Parallel()
	type outsiders struct{ quoted, onPull bool }
	for name, c := range map[string]struct {
		created agent.Created
		by      []string // of each run
		want    outsiders
	}{
		"Person":      {agent.Created{Repos: []agent.Repo{{URL: "a"}}}, []string{"", ""}, outsiders{}},
		"PullRequest": {agent.Created{Repos: []agent.Repo{{URL: "a"}, {URL: "b", PullRequest: "https://git.test/o/b/pull/1"}}}, []string{""}, outsiders{onPull: true}},
		"Review":      {agent.Created{Review: &agent.ReviewTask{}}, []string{""}, outsiders{onPull: true}},
		"Mention":     {agent.Created{}, []string{agent.ByMention, ""}, outsiders{quoted: true}},
		"Follow":      {agent.Created{}, []string{"", agent.ByPullRequest}, outsiders{quoted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := []agent.Event{{Seq: 1, Body: &c.created}}
			for i, by := range c.by {
				events = append(events, agent.Event{Seq: int64(i + 2), RunID: "run", Body: &agent.RunCreated{By: by, Prompt: conversation.Text(conversation.User, "do")}})
			}
			for generation := range 3 {
				p, err := At("bc-1", events, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got := (outsiders{p.State.Quoted, p.State.OnPull}); got != c.want {
					t.Errorf("after %d forks: %+v, want %+v", generation, got, c.want)
				}
				events = Events(p, "fork", "branch", "", "")
				for i := range events {
					events[i].Seq = int64(i + 1)
				}
			}
		})
	}
}
