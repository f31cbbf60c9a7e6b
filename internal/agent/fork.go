package agent

import (
	"slices"

	"aloft/internal/conversation"
)

// Forked is the second event in the journal of a fork, right after Created. It names the
// original agent and contains the state folded from the original's journal, which is not
// needed any more.
type Forked struct {
	ForkPosition
	// Layer is the original's saved disk, from which the first machine starts.
	// If it is "", the machine starts at the commits in Created.
	Layer string `json:"layer,omitempty"`
	// BootID is the boot of the original's machine that the first machine continues. The
	// memory of that boot is saved with Layer. "" if no processes were saved.
	BootID     string     `json:"bootId,omitempty"`
	Numbers    int64      `json:"numbers"`              // call numbers up to this one belong to the original
	BaseCommit string     `json:"baseCommit,omitempty"` // where the work on Layer began
	Others     []Checkout `json:"others,omitempty"`     // the repositories except the first
	ForkConversation
	Quoted    bool        `json:"quoted,omitempty"`  // as in the original's [Instructions]
	OnPull    bool        `json:"onPull,omitempty"`  // as in the original's [Instructions]
	RulesAt   string      `json:"rulesAt,omitempty"` // as in the original
	Subagents []Resumable `json:"subagents,omitempty"`
	Checks    []string    `json:"checks,omitempty"` // commands of the original's checks, without those of its environment
	Goal      string      `json:"goal,omitempty"`   // as in the original
}

// ForkPosition is a position in the journal of a fork's original.
type ForkPosition struct {
	AgentID string `json:"agentId"` // the original agent
	Seq     int64  `json:"seq"`     // the last event of the original that is included
	Turn    int    `json:"turn"`    // number of model replies among these events
}

// ForkConversation is the conversation that a fork continues. The order of the
// fields, here and in the enclosing struct, is their order in the journal.
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

// Number returns an unused number for a new call. It also avoids the numbers of the
// agents from which this one was forked.
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
	s.Quoted, s.OnPull = b.Quoted, b.OnPull
	for _, sub := range b.Subagents {
		s.Subagents = append(s.Subagents, Subagent{TaskBegan: sub.TaskBegan, Asked: sub.prompts(), Thread: Thread{Messages: slices.Clone(sub.Messages), Todos: slices.Clone(sub.Todos), Memory: sub.Memory}})
	}
}

// Texts that tell a fork that its processes have ended, or that they continue.
const (
	ForkedWithout = "Processes, background commands, terminals and the shell's variables and working directory are gone."
	ForkedAlive   = "Processes, terminals and the shell continue in your machine as copies of the other agent's. " +
		"Their outside connections were cut, and their variables may still name the other agent."
)

// Alive reports whether bootID is the boot of a fork's first machine that continues the
// processes of the original.
func (s *State) Alive(bootID string) bool {
	return s.Fork != nil && s.Fork.BootID != "" && s.Fork.BootID == bootID && !s.Settled
}
