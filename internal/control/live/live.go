// Package live passes on what clients see but nobody stores: the arguments of
// tool calls while a model writes them. The journal has the arguments once the
// reply is complete, so a client that misses a piece misses nothing permanent.
// Only clients of the server that executes the run receive them.
package live

import (
	"slices"
	"strings"
	"sync"
)

// Limits on one reply.
const (
	MaxArgs  = 64 << 10 // bytes of one call's arguments
	MaxCalls = 64
)

// Piece is a piece of the arguments of a call that a model is writing.
type Piece struct {
	RunID  string
	Task   string // call of the subagent that makes this call; "" for the agent itself
	CallID string // as in the journal later
	Name   string // of the tool
	Text   string // part of a JSON object
}

// Writing is a call whose arguments are being written.
type Writing struct {
	RunID, Task, CallID, Name string

	Args   string // written so far, at most MaxArgs bytes
	Cut    bool   // there is more than Args contains
	Serial int64  // distinguishes the call from one with the same id in a retried reply
}

// Board holds the calls that models are writing now, by agent. Its methods are
// safe for concurrent use and never wait for a watcher. The zero Board is ready
// to use; a nil Board shows nothing.
type Board struct {
	mu     sync.Mutex
	serial int64
	pages  map[string]*page // by agent; only agents with calls or watchers
}

type page struct {
	calls    []*call
	watchers map[*Watcher]struct{}
}

type call struct {
	Writing
	text strings.Builder
}

// Write adds a piece to its call, which it creates if necessary. Anything
// beyond [MaxArgs] and [MaxCalls] is dropped.
func (b *Board) Write(agentID string, p Piece) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	pg := b.page(agentID)
	i := slices.IndexFunc(pg.calls, func(c *call) bool { return c.CallID == p.CallID && c.RunID == p.RunID })
	if i < 0 {
		if len(pg.calls) == MaxCalls {
			return
		}
		b.serial++
		i = len(pg.calls)
		pg.calls = append(pg.calls, &call{Writing: Writing{RunID: p.RunID, Task: p.Task, CallID: p.CallID, Name: p.Name, Serial: b.serial}})
	}
	c := pg.calls[i]
	if c.Cut {
		return
	}
	room := MaxArgs - c.text.Len()
	c.Cut = len(p.Text) > room
	c.text.WriteString(p.Text[:min(room, len(p.Text))])
	for w := range pg.watchers {
		w.tell()
	}
}

// Clear removes the calls of the agent, or of the subagent started by the call
// task, because the reply is complete or is retried.
func (b *Board) Clear(agentID, task string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if pg := b.pages[agentID]; pg != nil {
		pg.calls = slices.DeleteFunc(pg.calls, func(c *call) bool { return c.Task == task })
		b.drop(agentID)
	}
}

// page returns the page of an agent, creating it if necessary. The caller holds
// b.mu.
func (b *Board) page(agentID string) *page {
	if b.pages == nil {
		b.pages = map[string]*page{}
	}
	if b.pages[agentID] == nil {
		b.pages[agentID] = &page{watchers: map[*Watcher]struct{}{}}
	}
	return b.pages[agentID]
}

// drop removes the page of an agent without calls and watchers. The caller
// holds b.mu.
func (b *Board) drop(agentID string) {
	if pg := b.pages[agentID]; len(pg.calls)+len(pg.watchers) == 0 {
		delete(b.pages, agentID)
	}
}

// Watcher reads the calls of one agent. It may be slow: pieces that it has not
// read are merged with later ones. The caller must call Close.
type Watcher struct {
	board   *Board
	agentID string
	unread  bool   // guarded by board.mu, like news
	news    func() // called once at the next piece; may be nil
}

// Watch returns a new watcher of an agent.
func (b *Board) Watch(agentID string) *Watcher {
	w := &Watcher{board: b, agentID: agentID}
	if b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		pg := b.page(agentID)
		pg.watchers[w] = struct{}{}
		w.unread = len(pg.calls) > 0
	}
	return w
}

// Read returns the calls that are being written now.
func (w *Watcher) Read() (out []Writing) {
	if w.board == nil {
		return nil
	}
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	w.unread = false
	for _, c := range w.board.page(w.agentID).calls {
		c.Args = c.text.String()
		out = append(out, c.Writing)
	}
	return out
}

// OnNews calls news once, as soon as there are pieces that Read has not
// returned, which may be immediately. news must not block or call the Watcher.
// stop prevents the call.
func (w *Watcher) OnNews(news func()) (stop func()) {
	if w.board == nil {
		return func() {}
	}
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	w.news = news
	if w.unread {
		w.tell()
	}
	return func() {
		w.board.mu.Lock()
		defer w.board.mu.Unlock()
		w.news = nil
	}
}

// tell notifies the watchers that there are new pieces to read. The caller
// holds board.mu.
func (w *Watcher) tell() {
	w.unread = true
	if w.news != nil {
		w.news()
		w.news = nil
	}
}

// Close stops watching.
func (w *Watcher) Close() {
	if w.board == nil {
		return
	}
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	delete(w.board.page(w.agentID).watchers, w)
	w.board.drop(w.agentID)
}
