package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/conversation"
)

// Forked comes right after Created in the journal of an agent that goes on from
// where another was: it says whence, and holds what the other's journal folded
// to, so that nothing of it is needed any more.
type Forked struct {
	AgentID string `json:"agentId"` // the other
	Seq     int64  `json:"seq"`     // the last of the other's events that this knows of
	Turn    int    `json:"turn"`    // how many replies of the model that were
	// Layer is the other's disk, with which the first machine begins. "" begins
	// anew, at the commits that Created names.
	Layer string `json:"layer,omitempty"`
	// BootID is the life of the other's machine that the first machine goes on with:
	// its processes are saved beside Layer. "" has none.
	BootID     string                 `json:"bootId,omitempty"`
	Numbers    int64                  `json:"numbers"`              // of calls, up to this one, are the other's
	BaseCommit string                 `json:"baseCommit,omitempty"` // where the work on Layer began
	Others     []Checkout             `json:"others,omitempty"`     // likewise of the repositories but the first
	Messages   []conversation.Message `json:"messages,omitempty"`
	Asked      []string               `json:"asked,omitempty"`
	Todos      []Todo                 `json:"todos,omitempty"`
	Memory     Memory                 `json:"memory,omitzero"`
	Mode       string                 `json:"mode,omitempty"`
	RulesAt    string                 `json:"rulesAt,omitempty"` // as the other's
	Subagents  []Resumable            `json:"subagents,omitempty"`
}

// Kind implements [Body].
func (*Forked) Kind() string { return "agent.forked" }

// Number is one that no call of the conversation has, nor will ever have had: the
// journal's own, past those of the agents from which this one began.
func (s *State) Number() int64 {
	n := s.Agent.Head + 1
	if s.Fork != nil {
		n += s.Fork.Numbers
	}
	return n
}

func (s *State) forked(b *Forked) {
	s.Fork, s.BaseCommit, s.Others = b, b.BaseCommit, slices.Clone(b.Others)
	s.Messages, s.Asked, s.Todos = slices.Clone(b.Messages), slices.Clone(b.Asked), slices.Clone(b.Todos)
	s.Memory, s.Mode = b.Memory, b.Mode
	for _, sub := range b.Subagents {
		s.Subagents = append(s.Subagents, Subagent{TaskBegan: sub.TaskBegan, Asked: sub.asked(), Thread: Thread{Messages: slices.Clone(sub.Messages), Todos: slices.Clone(sub.Todos), Memory: sub.Memory}})
	}
}

// A ForkPoint is a moment of an agent's life from which others may go on.
type ForkPoint struct {
	Created Created // the agent's
	State   *State
	Turn    int               // how many replies of the model there were
	Last    bool              // nothing was said since: the disk is as it was then
	Pushed  map[string]string // the commit that was on the remote then, by repository; one that was not pushed to is absent
}

// ErrNoTurn is wrapped by [PointAt] where the agent has had no such turn.
var ErrNoTurn = errors.New("there is no such turn")

// PointAt returns the moment after the agent's turn of that number, its calls
// and their results; turns are replies of the model, from 1. 0 is the present.
// The events are the agent's, from the first.
func PointAt(id string, events []Event, turn int) (ForkPoint, error) {
	p := ForkPoint{State: Fold(id, nil), Pushed: map[string]string{}, Last: true}
	if turn < 0 {
		return p, fmt.Errorf("%w: turn %d", ErrNoTurn, turn)
	}
	for _, e := range events {
		switch b := e.Body.(type) {
		case *Created:
			p.Created = *b
		case *RunCreated, *Compacted, *Rewound:
			p.Last = turn == 0 || p.Turn < turn
		case *TurnReplied:
			if p.Last = turn == 0 || p.Turn < turn; p.Last {
				p.Turn++
			}
		case *Pushed:
			p.Pushed[b.RepoURL] = b.Commit
		}
		if !p.Last {
			return p, nil
		}
		p.State.Apply(e)
	}
	if p.Turn < turn {
		return p, fmt.Errorf("%w: turn %d of %d", ErrNoTurn, turn, p.Turn)
	}
	return p, nil
}

// Events are the beginning of a journal of an agent that goes on from the point,
// on the branch, with the layer as its disk unless that is empty. What is
// another's own is not taken along: what people have allowed it, its secrets,
// its machine.
// A machine goes on with the life bootID of the other's, unless that is empty.
func (p ForkPoint) Events(name, branch, layer, bootID string) []Event {
	created := p.Created
	created.Name, created.Branch, created.WorkOnCurrentBranch = name, branch, false
	created.Env.Preset = "" // a fork is given a task
	created.Repos = slices.Clone(created.Repos)
	for i := range created.Repos { // it begins where the other stands
		created.Repos[i].PullRequest = ""
		if i < len(p.State.Agent.Repos) {
			created.Repos[i].StartingRef, created.Repos[i].TeamBase = p.State.Agent.Repos[i].StartingRef, p.State.Agent.Repos[i].TeamBase
		}
	}
	if len(created.Repos) == 0 {
		created.Branch = ""
	}
	f := &Forked{
		AgentID: p.State.Agent.ID, Seq: p.State.Agent.Head, Turn: p.Turn, Layer: layer, BootID: bootID,
		Numbers: p.State.Number(), Messages: p.State.Messages, Asked: p.State.Asked, Todos: p.State.Todos, Memory: p.State.Memory, Mode: p.State.Mode,
		RulesAt: p.State.Agent.RulesAt, Subagents: p.State.resumables(),
	}
	told := func(words string) []Event {
		for _, sub := range p.State.Background() {
			words += fmt.Sprintf(" The subagent %s (%s: %s), which works in the background, is that one's alone.", sub.ID, sub.Type, sub.Description)
		}
		words = strings.Join(append(slices.Clip(p.State.notices), words), "\n\n")
		return []Event{{Body: &created}, {Body: f}, {Body: &Notice{Text: words}}}
	}
	if layer != "" {
		f.BaseCommit = p.State.BaseCommit
		for _, o := range p.State.Others {
			f.Others = append(f.Others, Checkout{BaseCommit: o.BaseCommit, Branch: created.Branch})
		}
		return told(p.onItsDisk(created, bootID != ""))
	}
	for i, r := range created.Repos {
		commit := p.Pushed[r.URL]
		if commit == "" {
			commit = p.State.Checkout(i).BaseCommit
		}
		if commit != "" {
			created.Repos[i].StartingRef, created.Repos[i].TeamBase = commit, false
		}
	}
	return told(p.onWhatWasPushed(created))
}

// What a fork is told of processes: that they are not there, or that they are.
const (
	ForkedWithout = "Processes, background commands, terminals and the shell's variables and working directory are gone."
	ForkedAlive   = "Processes, terminals and the shell go on in your machine as copies of that one's, where they were. " +
		"Their connections to the outside were cut, and variables in them may still name the other agent."
)

// Alive reports whether a machine in that life is the first of a fork, and goes on
// with the processes of the other's.
func (s *State) Alive(bootID string) bool {
	return s.Fork != nil && s.Fork.BootID != "" && s.Fork.BootID == bootID && !s.Settled
}

const forkedWords = "From here on you are another agent than the one of the conversation so far, which goes on by itself. "

func (p ForkPoint) onItsDisk(c Created, alive bool) string {
	words := forkedWords + "Your machine is another, with a copy of that one's disk: files are as they were, also what was not committed."
	if !alive { // or else it is told when the machine is there
		words += " " + ForkedWithout
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + ", which begins where the work stood."
	}
	return words
}

func (p ForkPoint) onWhatWasPushed(c Created) string {
	words := forkedWords + "Your machine is another, made anew: files, packages and processes of the one before are not there."
	for _, r := range c.Repos {
		if commit := p.Pushed[r.URL]; commit != "" {
			words += fmt.Sprintf(" %s is at %.12s, the last commit that was pushed then: what came after it is not in the tree.", r.URL, commit)
		} else {
			words += fmt.Sprintf(" %s is where the work began, since nothing had been pushed then: changes that the conversation speaks of are not in the tree.", r.URL)
		}
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + "."
	}
	return words + " Look at the state of the tree before you go on."
}
