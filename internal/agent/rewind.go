package agent

import (
	"errors"
	"fmt"
	"slices"

	"aloft/internal/conversation"
	"aloft/internal/rule"
)

// Rewound records that the conversation continues from before an earlier event, a
// [RunCreated] or a [TurnReplied]. The messages since that event are no longer part of
// the conversation, although the journal keeps their events. The machine is not changed.
type Rewound struct {
	To     int64 `json:"to"`   // number of the earlier event
	Turn   int   `json:"turn"` // number of the first replaced model reply, from 1; if none is replaced, the number of the next reply
	UserID int64 `json:"userId"`
}

var _ = register(&Rewound{})

// Kind implements [Body].
func (*Rewound) Kind() string { return "agent.rewound" }

func (b *Rewound) fold(s *State, _ Event) { s.rewound(b.To) }

// A mark is the conversation before an event. It shares append-only slices with the
// state, so that a mark needs no memory per message.
type mark struct {
	seq      int64
	messages []conversation.Message
	notices  []string
	asked    int
	rules    []Rule
	applied  []rule.Rule
	todos    []Todo
	mode     string
	subs     []Subagent
}

func (s *State) mark() mark {
	return mark{seq: s.Agent.Head, messages: slices.Clip(s.Messages), notices: s.notices, asked: len(s.Asked), rules: s.Rules, applied: s.Applied, todos: s.Todos, mode: s.Mode, subs: slices.Clone(s.Subagents)}
}

// rewound restores the conversation from the mark before event number to. If there is no
// such mark, it does nothing.
func (s *State) rewound(to int64) {
	i := slices.IndexFunc(s.marks, func(m mark) bool { return m.seq == to })
	if i < 0 {
		return
	}
	m := s.marks[i]
	s.marks = slices.Clip(s.marks[:i]) // the conversation cannot be rewound to a replaced turn
	s.Messages, s.notices, s.Asked, s.Todos, s.Context = m.messages, m.notices, s.Asked[:m.asked:m.asked], m.todos, 0
	s.Rules, s.Applied, s.NotApplied = m.rules, m.applied, nil // keep Files, since the machine is not rewound
	s.Mode, s.Subagents = m.mode, slices.Clone(m.subs)
	s.stopTasks("the conversation was rewound to before that turn")
	s.before = &m
}

// markRun marks the beginning of a run. If the conversation was rewound for the
// run, the mark is before the notice about the rewinding.
func (s *State) markRun() {
	m := s.mark()
	if s.before != nil {
		seq := m.seq
		m, s.before = *s.before, nil
		m.seq = seq
	}
	s.marks = append(s.marks, m)
}

// A RewindPoint is a point from which a conversation can be continued.
type RewindPoint struct {
	To       int64  // as in [Rewound]
	Turn     int    // as in [Rewound]
	Replaced int    // number of replies that will be replaced
	Mode     string // mode in which the run started; "" in the middle of a run
	// Prompt is the prompt of the run that starts at the point; nil in the middle of a run.
	Prompt *conversation.Message
}

// Errors of [RewindTo].
var (
	ErrReplaced  = errors.New("the turn was replaced by a later one")
	ErrCompacted = errors.New("the turn was summarised")
)

// ErrNoTurn is wrapped by errors about a turn that an agent does not have.
var ErrNoTurn = errors.New("there is no such turn")

// RewindTo returns the point before the given turn, counted from 1. If the turn is the
// first of its run, the point is before the run's prompt. If turn is 0, the point is
// before the run with the given id. events is the agent's whole journal. The error may
// wrap [ErrNoTurn], [ErrReplaced] or [ErrCompacted].
func RewindTo(id string, events []Event, turn int, runID string) (RewindPoint, error) {
	s := Fold(id, nil)
	var run, found *RewindPoint
	var compacted int64
	turns, fresh := 0, false
	standing := []int64{} // replies that were not replaced
	for _, e := range events {
		s.Apply(e)
		switch b := e.Body.(type) {
		case *RunCreated:
			run, fresh = &RewindPoint{To: e.Seq, Turn: turns + 1, Prompt: &b.Prompt, Mode: s.Mode}, true
			if turn == 0 && e.RunID == runID {
				found = run
			}
		case *TurnReplied:
			turns++
			standing = append(standing, e.Seq)
			if turns == turn {
				if found = run; !fresh {
					found = &RewindPoint{To: e.Seq, Turn: turns}
				}
			}
			fresh = false
		case *Compacted:
			compacted = e.Seq
		case *Rewound:
			standing = slices.DeleteFunc(standing, func(seq int64) bool { return seq >= b.To })
		}
	}
	if found == nil {
		return RewindPoint{Turn: turns}, fmt.Errorf("%w: turn %d of %d", ErrNoTurn, turn, turns)
	}
	if !slices.ContainsFunc(s.marks, func(m mark) bool { return m.seq == found.To }) {
		if found.To < compacted {
			return *found, ErrCompacted
		}
		return *found, ErrReplaced
	}
	for _, seq := range standing {
		if seq >= found.To {
			found.Replaced++
		}
	}
	if found.Prompt != nil && len(found.Prompt.Blocks) == 0 {
		found.Prompt = nil
	}
	return *found, nil
}

// Events returns the events that rewind the conversation to the point. They
// precede the first event of the new run.
func (p RewindPoint) Events(userID int64) []Event {
	events := []Event{{Body: &Rewound{To: p.To, Turn: p.Turn, UserID: userID}}}
	if p.Replaced == 0 {
		return events
	}
	words := fmt.Sprintf("The user has rewound the conversation to this point: your %d later turns are no longer part of it. "+
		"The machine was not rewound: files, commits, pushes and processes are as those turns left them. Check the state of the tree before you continue.", p.Replaced)
	return append(events, Event{Body: &Notice{Text: words, Code: CodeRewound}})
}

// CodeRewound is the code of the notice that the conversation was rewound.
const CodeRewound = "rewound"
