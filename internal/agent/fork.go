package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/conversation"
)

// Forked is the second event in the journal of an agent that was forked, right
// after Created. It names the original agent and contains the state folded from
// the original's journal, which is not needed any more.
type Forked struct {
	ForkPosition
	// Layer is the original's saved disk, from which the first machine starts.
	// If it is "", the machine starts at the commits in Created.
	Layer string `json:"layer,omitempty"`
	// BootID is the boot of the original's machine that the first machine
	// continues. Its memory is saved with Layer. It is "" if no processes were
	// saved.
	BootID     string     `json:"bootId,omitempty"`
	Numbers    int64      `json:"numbers"`              // call numbers up to this one belong to the original
	BaseCommit string     `json:"baseCommit,omitempty"` // where the work on Layer began
	Others     []Checkout `json:"others,omitempty"`     // the repositories except the first
	ForkConversation
	RulesAt   string      `json:"rulesAt,omitempty"` // the same as the original's
	Subagents []Resumable `json:"subagents,omitempty"`
	Checks    []string    `json:"checks,omitempty"` // commands of the original's checks, without its environment's
	Goal      string      `json:"goal,omitempty"`   // the original's
}

// ForkPosition is a position in the journal of a fork's original.
type ForkPosition struct {
	AgentID string `json:"agentId"` // the original agent
	Seq     int64  `json:"seq"`     // the last event of the original that is included
	Turn    int    `json:"turn"`    // how many model replies these events have
}

// ForkConversation is the conversation that a fork continues. Its members and
// those of the structs around it keep their order in the journal.
type ForkConversation struct {
	Messages []conversation.Message `json:"messages,omitempty"`
	Asked    []string               `json:"asked,omitempty"`
	Todos    []Todo                 `json:"todos,omitempty"`
	Memory   Memory                 `json:"memory,omitzero"`
	Servers  string                 `json:"servers,omitempty"` // the list of MCP servers in Messages
	Mode     string                 `json:"mode,omitempty"`
}

// Kind implements [Body].
func (*Forked) Kind() string { return "agent.forked" }

// Number returns a number for a new call that no earlier call of the
// conversation has, including the calls of the agents from which this one was
// forked.
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
	s.Memory, s.Servers, s.Mode = b.Memory, b.Servers, b.Mode
	s.RequestChecks, s.Judging.Goal = b.Checks, b.Goal
	for _, sub := range b.Subagents {
		s.Subagents = append(s.Subagents, Subagent{TaskBegan: sub.TaskBegan, Asked: sub.prompts(), Thread: Thread{Messages: slices.Clone(sub.Messages), Todos: slices.Clone(sub.Todos), Memory: sub.Memory}})
	}
}

// A ForkPoint is a moment in an agent's history from which forks can continue.
type ForkPoint struct {
	Created Created // the agent's first event
	State   *State
	Turn    int               // number of model replies so far
	Last    bool              // nothing was said since, so the current disk fits
	Pushed  map[string]string // the commit on the remote at that time, by repository; repositories that were not pushed are absent
}

// ErrNoTurn is wrapped by errors of [PointAt] if the agent has no such turn.
var ErrNoTurn = errors.New("there is no such turn")

// PointAt returns the moment after the turn with that number, including the
// results of its calls. A turn is a reply of the model, counted from 1; 0 means
// the present. events is the agent's whole journal.
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

// Events returns the first events for the journal of an agent that continues
// from the point, with the given branch. layer is its disk unless it is empty;
// bootID is the boot whose processes continue, unless it is empty. What belongs
// to the original alone is left out: permissions, secrets, and the machine.
func (p ForkPoint) Events(name, branch, layer, bootID string) []Event {
	created := p.Created
	created.Name, created.Branch, created.WorkOnCurrentBranch = name, branch, false
	created.Env.Preset, created.Review = "", nil // a fork has an ordinary task
	created.Repos = slices.Clone(created.Repos)
	for i := range created.Repos { // it starts from the original's work
		created.Repos[i].PullRequest = ""
		if i < len(p.State.Agent.Repos) {
			created.Repos[i].StartingRef, created.Repos[i].TeamBase = p.State.Agent.Repos[i].StartingRef, p.State.Agent.Repos[i].TeamBase
		}
	}
	if len(created.Repos) == 0 {
		created.Branch = ""
	}
	f := &Forked{
		ForkPosition: ForkPosition{AgentID: p.State.Agent.ID, Seq: p.State.Agent.Head, Turn: p.Turn}, Layer: layer, BootID: bootID,
		Numbers: p.State.Number(), ForkConversation: ForkConversation{Messages: p.State.Messages, Asked: p.State.Asked, Todos: p.State.Todos, Memory: p.State.Memory, Servers: p.State.Servers, Mode: p.State.Mode},
		RulesAt: p.State.Agent.RulesAt, Subagents: p.State.resumables(), Checks: p.State.RequestChecks, Goal: p.State.Judging.Goal,
	}
	told := func(words string) []Event {
		for _, sub := range p.State.Background() {
			words += fmt.Sprintf(" The subagent %s (%s: %s), which works in the background, belongs to the other agent.", sub.ID, sub.Type, sub.Description)
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

// What a fork is told about processes: that they are gone, or that they
// continue.
const (
	ForkedWithout = "Processes, background commands, terminals and the shell's variables and working directory are gone."
	ForkedAlive   = "Processes, terminals and the shell continue in your machine as copies of the other agent's. " +
		"Their outside connections were cut, and their variables may still name the other agent."
)

// Alive reports whether bootID is the boot of a fork's first machine, which
// continues the processes of the original.
func (s *State) Alive(bootID string) bool {
	return s.Fork != nil && s.Fork.BootID != "" && s.Fork.BootID == bootID && !s.Settled
}

const forkedWords = "From here on you are a different agent from the one in the conversation so far, which continues separately. "

func (p ForkPoint) onItsDisk(c Created, alive bool) string {
	words := forkedWords + "Your machine is a different one, with a copy of that agent's disk: files are unchanged, including uncommitted changes."
	if !alive { // otherwise it is told when the machine is ready
		words += " " + ForkedWithout
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + ", which starts from that work."
	}
	return words
}

func (p ForkPoint) onWhatWasPushed(c Created) string {
	words := forkedWords + "Your machine is new: files, packages and processes of the previous one are gone."
	for _, r := range c.Repos {
		if commit := p.Pushed[r.URL]; commit != "" {
			words += fmt.Sprintf(" %s is at %.12s, the last commit that had been pushed then: later changes are not in the tree.", r.URL, commit)
		} else {
			words += fmt.Sprintf(" %sis at the commit where the work started, since nothing had been pushed then: changes mentioned in the conversation are not in the tree.", r.URL)
		}
	}
	if c.Branch != "" {
		words += " You work on the branch " + c.Branch + "."
	}
	return words + " Check the state of the tree before you continue."
}
