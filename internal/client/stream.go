package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// StreamEvent is one event of a run's public stream.
type StreamEvent struct {
	ID    string          `json:"id,omitempty"` // position to resume from; empty if the stream cannot resume here
	Event string          `json:"event"`        // status, assistant, tool_call, result, done, …
	Data  json.RawMessage `json:"data"`
}

// Event is one event of an agent's journal.
type Event struct {
	Seq   int64           `json:"seq"`
	Time  time.Time       `json:"time"`
	RunID string          `json:"runId,omitempty"`
	Kind  string          `json:"kind"`
	Data  json.RawMessage `json:"data"`
}

// silence is how long a stream may be idle. The server sends something every 15 s.
const silence = time.Minute

// errSilent is the cause with which an idle connection is closed.
var errSilent = errors.New("the stream has gone silent")

// backoff computes the wait between retries.
type backoff struct {
	first, most time.Duration
	tries       int // maximum number of consecutive failed attempts without a new event
}

var defaultBackoff = backoff{first: 200 * time.Millisecond, most: 5 * time.Second, tries: 20}

// after returns the wait after n attempts. It adds jitter, so that many clients do not
// reconnect at once.
func (b backoff) after(n int) time.Duration {
	d := b.most
	if n < 10 {
		d = min(b.first<<n, b.most)
	}
	return d/2 + rand.N(d/2+1)
}

// Stream follows a run's public event stream to its end. It starts after the
// event lastID, or at the first event if lastID is empty. It reconnects after a
// lost connection without missing events; only status events may be repeated.
// If an error ends the stream, the last pair contains the error.
func (c *Client) Stream(ctx context.Context, agentID, runID, lastID string) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		stopped := false
		err := c.resume(ctx, func(ctx context.Context, alive func()) (bool, error) {
			header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
			if lastID != "" {
				header.Set("Last-Event-ID", lastID)
			}
			reply, err := c.open(ctx, request{method: http.MethodGet, path: runPath(agentID, runID) + "/stream", header: header})
			if err != nil {
				return false, err
			}
			defer reply.Body.Close()
			in := newFrames(&readWatcher{reply.Body, alive})
			news := false
			for {
				f, err := in.next()
				if err != nil {
					return news, err
				}
				if f.hasID && f.id != "" && validID(f.id) {
					lastID, news = f.id, true
				}
				if f.event == "heartbeat" {
					continue
				}
				if !json.Valid(f.data) {
					return news, permanent{fmt.Errorf("the data of event %q is not JSON: is %s an Aloft server?", f.event, c.base)}
				}
				if !yield(StreamEvent{ID: f.id, Event: f.event, Data: f.data}, nil) {
					stopped = true
					return news, errDone
				}
				if f.event == "done" {
					return news, errDone
				}
			}
		})
		if err != nil && !stopped {
			yield(StreamEvent{}, err)
		}
	}
}

// Events returns the events of an agent's journal with numbers greater than
// after. If follow is true, it waits for more until ctx is done or the agent is
// deleted, and reconnects after a lost connection. If an error ends the stream,
// the last pair contains the error.
func (c *Client) Events(ctx context.Context, agentID string, after int64, follow bool) iter.Seq2[Event, error] {
	return c.EventsIn(ctx, agentID, Part{After: after}, follow)
}

// MostLast is the largest value of [Part.Last].
const MostLast = 1_000

// Part is a part of an agent's journal.
type Part struct {
	After  int64 // only events after this number
	Before int64 // only events before this number; 0 for all
	Last   int   // maximum number of events, from the end; 0 for all
}

// EventsIn is like [Client.Events] for a part of the journal. follow requires that
// part.Before is 0.
func (c *Client) EventsIn(ctx context.Context, agentID string, part Part, follow bool) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stopped := false
		err := c.resume(ctx, func(ctx context.Context, alive func()) (bool, error) {
			q := url.Values{"after": {strconv.FormatInt(part.After, 10)}, "follow": {strconv.FormatBool(follow)}}
			if part.Before > 0 {
				q.Set("before", strconv.FormatInt(part.Before, 10))
			}
			if part.Last > 0 {
				q.Set("last", strconv.Itoa(part.Last))
			}
			reply, err := c.open(ctx, request{method: http.MethodGet, path: agentPath(agentID) + "/events", query: q})
			if err != nil {
				return false, err
			}
			defer reply.Body.Close()
			in := newLines(&readWatcher{reply.Body, alive})
			news := false
			for {
				line, err := in.next()
				if errors.Is(err, io.EOF) && !follow {
					return news, errDone
				}
				if err != nil {
					return news, err
				}
				if len(line) == 0 {
					continue
				}
				var e Event
				if err := json.Unmarshal(line, &e); err != nil {
					return news, permanent{fmt.Errorf("the journal has an invalid line: is %s an Aloft server? %w", c.base, err)}
				}
				part.After, news = max(part.After, e.Seq), true
				if part.Last > 0 && follow {
					part.Last = 0 // after reconnecting, return every new event
				}
				if !yield(e, nil) {
					stopped = true
					return news, errDone
				}
			}
		})
		if err != nil && !stopped {
			yield(Event{}, err)
		}
	}
}

// errDone ends a stream normally.
var errDone = errors.New("done")

// permanent is an error that a retry cannot fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// resume calls connect until connect is done, returns a permanent error, or
// fails too often in a row without receiving data. connect must call alive
// whenever it receives data.
func (c *Client) resume(ctx context.Context, connect func(ctx context.Context, alive func()) (news bool, err error)) error {
	for tries := 0; ; {
		once, cancel := context.WithCancelCause(ctx)
		watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
		news, err := connect(once, func() { watchdog.Reset(silence) })
		watchdog.Stop()
		cancel(nil)
		switch {
		case errors.Is(err, errDone):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !mendable(err):
			return err
		}
		if news {
			tries = 0
		}
		if tries++; tries > c.wait.tries {
			return err
		}
		select {
		case <-time.After(c.wait.after(tries - 1)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// mendable reports whether a retry may succeed.
func mendable(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status == http.StatusTooManyRequests || e.Status >= 500 && e.Status != http.StatusNotImplemented
	}
	if _, ok := errors.AsType[permanent](err); ok {
		return false
	}
	return !errors.Is(err, errLongLine)
}

// readWatcher is a reader that calls alive after every read.
type readWatcher struct {
	r     io.Reader
	alive func()
}

func (h *readWatcher) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.alive()
	}
	return n, err
}
