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
	ID    string          `json:"id,omitempty"` // to go on from; empty where it is no place
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

// silence is how long a stream may be without a byte: the server sends
// something every 15 s.
const silence = time.Minute

// errSilent ends a connection over which nothing came any more.
var errSilent = errors.New("the stream has gone silent")

// backoff says how long to wait before the next try.
type backoff struct {
	first, most time.Duration
	tries       int // in a row without anything new, before it is given up
}

var defaultBackoff = backoff{first: 200 * time.Millisecond, most: 5 * time.Second, tries: 20}

// after returns the wait after n tries, with a random part, so that many clients
// do not come back at once.
func (b backoff) after(n int) time.Duration {
	d := b.most
	if n < 10 {
		d = min(b.first<<n, b.most)
	}
	return d/2 + rand.N(d/2+1)
}

// Stream follows a run's public stream from after the event of that id, or from
// its first where it is empty, to its end. A connection that breaks is taken up
// again where it broke, so that nothing is missed and nothing comes twice but
// status events. The last pair has the error that ended it, if one did.
func (c *Client) Stream(ctx context.Context, agentID, runID, lastID string) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		stopped := false
		err := c.resume(ctx, func(ctx context.Context, alive func()) (bool, error) {
			header := http.Header{"Accept": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
			if lastID != "" {
				header.Set("Last-Event-ID", lastID)
			}
			reply, err := c.open(ctx, http.MethodGet, runPath(agentID, runID)+"/stream", nil, nil, header)
			if err != nil {
				return false, err
			}
			defer reply.Body.Close()
			in := newFrames(&heard{reply.Body, alive})
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
					return news, permanent{fmt.Errorf("the stream's %q is not JSON: is %s an Aloft server?", f.event, c.base)}
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

// Events returns an agent's journal after the number. With follow it waits for
// more until ctx ends, and takes up again what breaks; it ends only if the agent
// is deleted. The last pair has the error that ended it, if one did.
func (c *Client) Events(ctx context.Context, agentID string, after int64, follow bool) iter.Seq2[Event, error] {
	return c.EventsIn(ctx, agentID, Part{After: after}, follow)
}

// MostLast is the most that [Part.Last] can be.
const MostLast = 1_000

// Part is a part of an agent's journal.
type Part struct {
	After  int64 // only events after this number
	Before int64 // only events before this number; 0 for all
	Last   int   // only the last so many; 0 for all
}

// EventsIn is [Client.Events] of a part of the journal, which can be followed
// unless it ends before some event.
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
			reply, err := c.open(ctx, http.MethodGet, agentPath(agentID)+"/events", q, nil, nil)
			if err != nil {
				return false, err
			}
			defer reply.Body.Close()
			in := newLines(&heard{reply.Body, alive})
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
					return news, permanent{fmt.Errorf("the journal has a line that is no event: is %s an Aloft server? %w", c.base, err)}
				}
				part.After, news = max(part.After, e.Seq), true
				if part.Last > 0 && follow {
					part.Last = 0 // whatever comes is wanted now
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

// errDone ends a stream as it should end.
var errDone = errors.New("done")

// permanent is an error that another try would not mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// resume calls connect until it is done, fails for good, or has failed too often
// in a row without news. connect calls alive when it hears anything.
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

// mendable reports whether another try may work.
func mendable(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status == http.StatusTooManyRequests || e.Status >= 500 && e.Status != http.StatusNotImplemented
	}
	if _, ok := errors.AsType[permanent](err); ok {
		return false
	}
	return !errors.Is(err, errLongLine)
}

// heard calls alive whenever something is read.
type heard struct {
	r     io.Reader
	alive func()
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if n > 0 {
		h.alive()
	}
	return n, err
}
