package agent

import (
	"errors"
	"fmt"
	"slices"

	"aloft/internal/conversation"
)

// Rewound says that the conversation goes on from before one of the agent's
// events, a [RunCreated] or a [TurnReplied]: what was said from there on is no
// longer part of it. The journal keeps it, and the machine is as it was left.
type Rewound struct {
	To     int64 `json:"to"`   // the number of that event
	Turn   int   `json:"turn"` // the first reply that is replaced, as [PointAt] counts; one more than there were if none is
	UserID int64 `json:"userId"`
}

// Kind implements [Body].
func (*Rewound) Kind() string { return "agent.rewound" }

// A mark is the conversation as it was before an event. It shares with the state
// what is only ever added to, so that it costs nothing per message.
type mark struct {
	seq      int64
	messages []conversation.Message
	notices  []string
	asked    int
	rules    []Rule
	todos    []Todo
	mode     string
	subs     []Subagent
}

func (s *State) mark() mark {
	return mark{seq: s.Agent.Head, messages: slices.Clip(s.Messages), notices: s.notices, asked: len(s.Asked), rules: s.Rules, todos: s.Todos, mode: s.Mode, subs: slices.Clone(s.Subagents)}
}

// rewound puts the conversation back. One whose mark is gone stays as it is:
// nobody journals that.
func (s *State) rewound(to int64) {
	i := slices.IndexFunc(s.marks, func(m mark) bool { return m.seq == to })
	if i < 0 {
		return
	}
	m := s.marks[i]
	s.marks = slices.Clip(s.marks[:i]) // what is replaced cannot be gone back to
	s.Messages, s.notices, s.Asked, s.Todos, s.Context = m.messages, m.notices, s.Asked[:m.asked:m.asked], m.todos, 0
	s.Rules = m.rules // but not Files, since the machine is not taken back
	s.Mode, s.Subagents = m.mode, slices.Clone(m.subs)
	s.stopTasks("the conversation was taken back to before that")
	s.before = &m
}

// markRun marks the beginning of a run: where the conversation was taken back
// for it, before the words that say so.
func (s *State) markRun() {
	m := s.mark()
	if s.before != nil {
		seq := m.seq
		m, s.before = *s.before, nil
		m.seq = seq
	}
	s.marks = append(s.marks, m)
}

// A RewindPoint is a point of a conversation from which it can go on anew.
type RewindPoint struct {
	To       int64  // as [Rewound] has it
	Turn     int    // likewise
	Replaced int    // how many replies of the model are
	Mode     string // that the run began in; "" in the middle of a run
	// Prompt is what was asked of the run that begins there; it is nil in the
	// middle of a run.
	Prompt *conversation.Message
}

// Errors of [RewindTo].
var (
	ErrReplaced  = errors.New("the turn was replaced by a later one")
	ErrCompacted = errors.New("the turn was summarised")
)

// RewindTo returns the point before the agent's turn of that number, as
// [PointAt] counts: where it is the first of its run, that is before the prompt.
// With a turn of 0 it is the beginning of the run of that id. The events are the
// agent's, from the first. The error may wrap [ErrNoTurn], [ErrReplaced] or
// [ErrCompacted].
func RewindTo(id string, events []Event, turn int, runID string) (RewindPoint, error) {
	s := Fold(id, nil)
	var run, found *RewindPoint
	var compacted int64
	turns, fresh := 0, false
	standing := []int64{} // replies that no later one has replaced
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

// Events are what is journaled for the conversation to go on from the point. They
// come before the run's first.
func (p RewindPoint) Events(userID int64) []Event {
	events := []Event{{Body: &Rewound{To: p.To, Turn: p.Turn, UserID: userID}}}
	if p.Replaced == 0 {
		return events
	}
	words := fmt.Sprintf("The user has taken the conversation back to this point: your later turns, %d of them, are no longer part of it. "+
		"The machine was not taken back: files, commits, pushes and processes are as those turns left them. Look at the state of the tree before you go on.", p.Replaced)
	return append(events, Event{Body: &Notice{Text: words, Code: CodeRewound}})
}

// CodeRewound is the code of the notice that the conversation was taken back.
const CodeRewound = "rewound"
