package api

import (
	"errors"
	"math"
	"net/http"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
)

const (
	jsonLines = "application/x-ndjson"
	maxEvents = 1_000_000
)

// eventLine is one event of a journal as this API shows it.
type eventLine struct {
	Seq   int64      `json:"seq"`
	Time  time.Time  `json:"time"`
	RunID string     `json:"runId,omitempty"`
	Kind  string     `json:"kind"`
	Data  agent.Body `json:"data"`
}

// listEvents writes an agent's journal, one event a line.
func (s *server) listEvents(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	q := r.URL.Query()
	after, err := integer(q, "after", 0, 0, math.MaxInt)
	if err != nil {
		return err
	}
	left, err := integer(q, "limit", math.MaxInt, 1, maxEvents)
	if err != nil {
		return err
	}
	wait, err := boolean(q, "follow", false)
	if err != nil {
		return err
	}
	out := s.newPush(w, jsonLines)
	defer out.close()
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	err = s.follow(r.Context(), a.ID, int64(after), wait, func(events []agent.Event) (bool, error) {
		for _, e := range events[:min(left, len(events))] {
			line, err := marshal(eventLine{e.Seq, stamp(e.Time), e.RunID, e.Body.Kind(), withoutPictures(e.Body)})
			if err != nil {
				return false, err
			}
			out.buf.Write(append(line, '\n'))
			left--
		}
		return left == 0, out.flush()
	}, func() error {
		out.buf.WriteByte('\n')
		return out.flush()
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // deleted while it was followed: its lines have ended
	}
	return err
}

// withoutPictures returns a body whose images are named, but not there: a log is
// for reading, and they can be 75 MiB. getEventImage has them.
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
