// Package live passes on what is shown to watchers and kept nowhere: the
// arguments of tool calls while a model writes them. The journal has them whole
// once the reply is there, so a watcher that misses a piece misses nothing that
// lasts. Watchers at another server than the one that works the run see none.
package live

import (
	"slices"
	"strings"
	"sync"
)

// Bounds of what is shown of one reply.
const (
	MaxArgs  = 64 << 10 // bytes of one call's arguments
	MaxCalls = 64
)

// Piece is a piece of the arguments of a call that a model is writing.
type Piece struct {
	RunID  string
	Task   string // the call at which the subagent works that makes the call; "" if the agent itself does
	CallID string // as the journal will have it
	Name   string // of the tool
	Text   string // of a JSON object
}

// Writing is a call whose arguments are being written.
type Writing struct {
	RunID, Task, CallID, Name string

	Args   string // as far as they are written, at most MaxArgs bytes
	Cut    bool   // there is more than Args has
	Serial int64  // tells the call from another of the same id, of a reply that was asked for again
}

// Board has the calls that models are writing now, by agent. Its methods are safe
// for concurrent use and never wait for a watcher. The zero Board is ready; of a
// nil one nothing is shown.
type Board struct {
	mu     sync.Mutex
	serial int64
	pages  map[string]*page // by agent; those only that are written on or watched
}

type page struct {
	calls    []*call
	watchers map[*Watcher]struct{}
}

type call struct {
	Writing
	text strings.Builder
}

// Write adds a piece to the call that it is of, or begins one. What is over
// [MaxArgs] and [MaxCalls] is dropped.
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

// Clear removes the calls of the agent itself, or of the subagent that works at
// the call task: its reply is whole, or begins anew.
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

// page returns that of an agent. b.mu is held.
func (b *Board) page(agentID string) *page {
	if b.pages == nil {
		b.pages = map[string]*page{}
	}
	if b.pages[agentID] == nil {
		b.pages[agentID] = &page{watchers: map[*Watcher]struct{}{}}
	}
	return b.pages[agentID]
}

// drop forgets the page of an agent that is neither written on nor watched. b.mu
// is held.
func (b *Board) drop(agentID string) {
	if pg := b.pages[agentID]; len(pg.calls)+len(pg.watchers) == 0 {
		delete(b.pages, agentID)
	}
}

// Watcher reads the calls of one agent. It may be slow: what it has not read is
// joined to what comes after. Its owner calls Close.
type Watcher struct {
	board   *Board
	agentID string
	unread  bool   // guarded by board.mu, as is news
	news    func() // called at the next piece, once; nil for nobody
}

// Watch begins to watch an agent.
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

// OnNews has news called, once, as soon as there is something that Read has not
// returned, which may be now. It must not wait, nor call the Watcher. stop takes
// that back.
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

// tell says that there is something to read. board.mu is held.
func (w *Watcher) tell() {
	w.unread = true
	if w.news != nil {
		w.news()
		w.news = nil
	}
}

// Close ends the watch.
func (w *Watcher) Close() {
	if w.board == nil {
		return
	}
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	delete(w.board.page(w.agentID).watchers, w)
	w.board.drop(w.agentID)
}
