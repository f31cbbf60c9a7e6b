package ledger

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// A Holding is what an agent or a person has open at the server.
type Holding struct {
	Kind    HoldingKind
	AgentID string // "" if it belongs to no agent
	UserID  int64  // 0 if it belongs to nobody that the server knows
}

// A HoldingKind is the kind of a [Holding].
type HoldingKind string

// Kinds of holdings.
const (
	Stream  HoldingKind = "stream"  // an open stream or WebSocket
	Request HoldingKind = "request" // a request with a large body
	Push    HoldingKind = "push"    // a push that git unpacks
	Event   HoldingKind = "event"   // an event of a forge that is being received
)

// Held is how much there is of a [Holding] at the moment.
type Held struct {
	Holding

	Count int
	Bytes int64 // memory that all of them may take; 0 for streams, which take little
}

// A Tally counts what agents and people have open at the server. Its methods are safe
// for concurrent use. The zero value is ready to use, and a nil Tally counts nothing.
type Tally struct {
	mu   sync.Mutex
	held map[Holding]Held
}

// Hold counts something that may take the given number of bytes of memory. The caller
// must call release when it ends.
func (t *Tally) Hold(h Holding, bytes int64) (release func()) {
	if t == nil {
		return func() {}
	}
	t.add(h, 1, bytes)
	return sync.OnceFunc(func() { t.add(h, -1, -bytes) })
}

func (t *Tally) add(h Holding, count int, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.held[h]
	now.Holding, now.Count, now.Bytes = h, now.Count+count, now.Bytes+bytes
	if now.Count == 0 {
		delete(t.held, h)
		return
	}
	if t.held == nil {
		t.held = map[Holding]Held{}
	}
	t.held[h] = now
}

// Held returns what a user holds, or everybody if userID is 0: the largest first. What
// an agent holds is its owner's, if the ledger has measured the agent's journal.
func (l *Ledger) Held(userID int64) []Held {
	l.Tally.mu.Lock()
	all := slices.Collect(maps.Values(l.Tally.held))
	l.Tally.mu.Unlock()
	for i, h := range all {
		if h.UserID == 0 && h.AgentID != "" {
			all[i].UserID = l.ownerOf(h.AgentID)
		}
	}
	if userID != 0 {
		all = slices.DeleteFunc(all, func(h Held) bool { return h.UserID != userID })
	}
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.UserID, b.UserID), cmp.Compare(a.AgentID, b.AgentID))
	})
	return all
}

// ownerOf returns the owner of an agent according to the last measurement of its
// journal, or 0.
func (l *Ledger) ownerOf(agentID string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.measured[key{Journal, agentID}].userID
}
