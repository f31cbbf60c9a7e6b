// Package live streams the arguments of tool calls to clients while a model
// writes them. The pieces are not stored. Once the reply is complete, the
// journal contains the arguments, so a client that misses a piece loses
// nothing. Only clients of the server that executes the run receive pieces.
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
	Task   string // id of the call that started the subagent; "" for the agent itself
	CallID string // id of the call, as later in the journal
	Name   string // name of the tool
	Text   string // a part of the arguments' JSON object
}

// Writing is a call whose arguments are being written.
type Writing struct {
	RunID, Task, CallID, Name string

	Args   string // text written so far, at most MaxArgs bytes
	Cut    bool   // Args is incomplete
	Serial int64  // distinguishes this call from a call with the same id in a retried reply
}

// Board holds the calls that models are currently writing, by agent. Its
// methods are safe for concurrent use and never wait for a watcher. The zero
// Board is ready to use; a nil Board shows nothing.
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

// Write appends a piece to its call, and creates the call if necessary. It
// drops pieces beyond [MaxArgs] and [MaxCalls].
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

// Clear removes the calls of the agent, or those of the subagent that the call
// task started, because the reply is complete or is retried.
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

// drop removes the page of an agent if the page has no calls and no watchers.
// The caller holds b.mu.
func (b *Board) drop(agentID string) {
	if pg := b.pages[agentID]; len(pg.calls)+len(pg.watchers) == 0 {
		delete(b.pages, agentID)
	}
}

// Watcher reads the calls of one agent. A watcher may be slow: unread pieces
// are merged with later ones. The caller must call Close.
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

// Read returns the calls that are currently being written.
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
