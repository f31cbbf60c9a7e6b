package agent

import (
	"slices"

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

var _ = register(&Forked{})

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

// Texts for a fork about its processes: that they have ended, or that they
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
