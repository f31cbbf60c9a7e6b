package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

const (
	maxEvents = 1_000_000
	maxLast   = 1_000
	// maxPage bounds the encoded size of a page of the last events. maxLook
	// bounds how many events are read to fill a page, since most of them may be
	// skipped.
	maxPage = 8 << 20 // bytes
	maxLook = 20_000
)

// eventLine is a journal event in the API's format.
type eventLine struct {
	Seq   int64      `json:"seq"`
	Time  time.Time  `json:"time"`
	RunID string     `json:"runId,omitempty"`
	Kind  string     `json:"kind"`
	Data  agent.Body `json:"data"`
}

// eventsQuery says which events of a journal to return.
type eventsQuery struct {
	after, before int64 // both exclusive; before is 0 if there is no upper bound
	limit         int   // number of events from the start; 0 for all
	last          int   // number of events from the end; 0 for all
	pieces, wait  bool
}

var eventParams = []rest.Param{
	{Name: "after", Kind: "integer", Standard: 0, Words: "only events after this number"},
	{Name: "before", Kind: "integer", Min: 1, Words: "only events before this number"},
	{Name: "limit", Kind: "integer", Min: 1, Max: maxEvents, Words: "at most this many events from the start; default all"},
	{Name: "last", Kind: "integer", Min: 1, Max: maxLast, Words: "only this many events from the end; the cost does not depend on the journal's length"},
	{Name: "pieces", Kind: "boolean", Standard: true, Words: "false (requires last): leave out deltas whose complete reply or result is included, and start at the beginning of a turn if one is near, which may return more than last"},
	{Name: "follow", Kind: "boolean", Standard: false, Words: "wait for new events; empty lines keep the connection alive"},
}

func parseEvents(q url.Values) (out eventsQuery, err error) {
	number := func(name string, standard, least, most int) (n int) {
		if err == nil {
			n, err = rest.Integer(q, name, standard, least, most)
		}
		return n
	}
	out.after = int64(number("after", 0, 0, math.MaxInt))
	out.before = int64(number("before", 0, 1, math.MaxInt))
	out.limit = number("limit", math.MaxInt, 1, maxEvents)
	out.last = number("last", 0, 1, maxLast)
	if err != nil {
		return out, err
	}
	if out.wait, err = rest.Boolean(q, "follow", false); err != nil {
		return out, err
	}
	if out.pieces, err = rest.Boolean(q, "pieces", true); err != nil {
		return out, err
	}
	switch {
	case out.wait && out.before > 0:
		return out, fault.Invalid("cannot be combined with follow").At("before")
	case out.last > 0 && q.Has("limit"):
		return out, fault.Invalid("cannot be combined with limit").Hint("limit selects the first events, last the last ones").At("last")
	case !out.pieces && out.last == 0:
		return out, fault.Invalid("false requires last").At("pieces")
	}
	return out, nil
}

// listEvents writes an agent's journal, one event per line.
func (s *API) listEvents(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	ctx := r.Context()
	a, err := s.Agent(ctx, who, r.PathValue("id"))
	if err != nil {
		return err
	}
	q, err := parseEvents(r.URL.Query())
	if err != nil {
		return err
	}
	out := s.NewPush(w, rest.JSONLines)
	defer out.Close()
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	before := a.Head + 1
	if q.before > 0 {
		before = min(before, q.before)
	}
	if q.last > 0 {
		lines, err := s.lastLines(ctx, a.ID, q, before)
		if err != nil {
			return err
		}
		for _, line := range slices.Backward(lines) {
			out.Buf.Write(line)
		}
		if err := out.Flush(); err != nil || !q.wait {
			return err
		}
		q.after = max(q.after, a.Head)
	}
	err = s.follow(ctx, a.ID, q.after, q.wait, func(events []agent.Event) (bool, error) {
		for _, e := range events[:min(q.limit, len(events))] {
			if q.before > 0 && e.Seq >= q.before {
				q.limit = 0
				break
			}
			line, err := lineOf(e)
			if err != nil {
				return false, err
			}
			out.Buf.Write(line)
			q.limit--
		}
		return q.limit == 0, out.Flush()
	}, waiting{idle: func() error {
		out.Buf.WriteByte('\n')
		return out.Flush()
	}})
	if errors.Is(err, store.ErrNotFound) {
		return nil // the agent was deleted while its journal was followed
	}
	return err
}

func lineOf(e agent.Event) ([]byte, error) {
	line, err := rest.Marshal(eventLine{e.Seq, rest.Stamp(e.Time), e.RunID, e.Body.Kind(), withoutPictures(e.Body)})
	return append(line, '\n'), err
}

// lastLines returns the lines of the last events before a number, the newest
// first. It reads backwards, only as far as needed.
func (s *API) lastLines(ctx context.Context, id string, q eventsQuery, before int64) (lines [][]byte, err error) {
	whole := assembler{}
	size, read := 0, 0
	if !q.pieces { // the event at the page's border may make the last deltas of this page redundant
		border, err := s.Journal.Read(ctx, id, before-1, 1)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		for _, e := range border {
			whole.leftOut(e)
		}
	}
	for before > q.after+1 {
		first := max(q.after+1, before-rest.Batch)
		events, err := s.Journal.Read(ctx, id, first-1, int(before-first))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", id, err)
		}
		for _, e := range slices.Backward(events) {
			if read++; !q.pieces && whole.leftOut(e) {
				continue
			}
			line, err := lineOf(e)
			if err != nil {
				return nil, err
			}
			lines, size = append(lines, line), size+len(line)
			enough := len(lines) >= q.last && (q.pieces || atTurn(e) || len(lines) >= 2*q.last)
			if enough || size >= maxPage || read >= maxLook {
				return lines, nil
			}
		}
		before = first
	}
	return lines, nil
}

// assembler reads events backwards, and finds the deltas whose content a later
// event repeats in full.
type assembler struct {
	reply bool // earlier deltas belong to a reply that was completed or restarted, so they are redundant
	calls map[string]bool
	subs  map[string]*assembler // state of each subagent, by the id of its call
}

func (w *assembler) leftOut(e agent.Event) bool {
	switch b := e.Body.(type) {
	case *agent.TurnReplied, *agent.ModelRetry:
		w.reply = true
	case *agent.RunCreated, *agent.RunEnded:
		w.reply = false
	case *agent.CallDone:
		if w.calls == nil {
			w.calls = map[string]bool{}
		}
		w.calls[b.CallID] = true
	case *agent.TextDelta, *agent.ThinkingDelta:
		return w.reply
	case *agent.CallDelta:
		return w.calls[b.CallID]
	case *agent.Within:
		if w.subs == nil {
			w.subs = map[string]*assembler{}
		}
		if w.subs[b.CallID] == nil {
			w.subs[b.CallID] = &assembler{}
		}
		e.Body = b.Body
		return w.subs[b.CallID].leftOut(e)
	}
	return false
}

// atTurn reports whether the events before this one belong to another turn.
func atTurn(e agent.Event) bool {
	switch e.Body.(type) {
	case *agent.TurnReplied, *agent.RunCreated:
		return true
	}
	return false
}

// withoutPictures returns the body without the data of its images, which can be
// 75 MiB. Clients get the images with getEventImage.
func withoutPictures(body agent.Body) agent.Body {
	switch b := body.(type) {
	case *agent.RunCreated:
		out := *b
		out.Prompt = unpictured(b.Prompt)
		return &out
	case *agent.Queued:
		out := *b
		out.Prompt = unpictured(b.Prompt)
		return &out
	case *agent.Within:
		return &agent.Within{CallID: b.CallID, Body: withoutPictures(b.Body)}
	case *agent.CallDone:
		out := *b
		out.Images = nil
		for _, im := range b.Images {
			out.Images = append(out.Images, conversation.Image{MediaType: im.MediaType})
		}
		return &out
	}
	return body
}

func unpictured(m conversation.Message) conversation.Message {
	blocks := m.Blocks
	m.Blocks = nil
	for _, block := range blocks {
		if block.Image != nil {
			block.Image = &conversation.Image{MediaType: block.Image.MediaType}
		}
		m.Blocks = append(m.Blocks, block)
	}
	return m
}
