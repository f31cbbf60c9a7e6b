package stream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// keptForever is the value of X-Cursor-Stream-Retention-Seconds for an agent
// that never expires, since the header must be a number.
const keptForever = 365 * 24 * time.Hour

// streamRun streams a run's frames as they come, from the first frame or from
// the frame after Last-Event-ID. All frames come from the journal, so a client
// that reconnects to any server gets the frames that it missed.
func (s *API) streamRun(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	err := s.sendRun(w, r, who)
	if errors.Is(err, store.ErrUnreachable) {
		return fault.Unavailable("cannot read the events of the run").Named(rest.CodeStream).Because(err)
	}
	return err
}

func (s *API) sendRun(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, run, err := s.agents.RunAndAgent(r, who)
	if err != nil {
		return err
	}
	last, err := lastEvent(r.Header.Get("Last-Event-ID"), run)
	if err != nil {
		return err
	}
	all, err := s.agents.Branches(r.Context(), a)
	if err != nil {
		return err
	}
	settings, err := store.Settings(r.Context(), s.Rules)
	if err != nil {
		return err
	}
	out := s.NewPush(w, rest.EventStream)
	defer out.Close()
	kept := retention(settings.At(a.CreatedAt), a, run, time.Now())
	w.Header().Set("X-Cursor-Stream-Retention-Seconds", strconv.Itoa(int(kept.Seconds())))
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	v := newView(run, last, all)
	watcher := s.Live.Watch(a.ID)
	defer watcher.Close()
	written := newDrafts(run.ID, watcher, s.DraftsEvery)
	err = s.follow(r.Context(), run.AgentID, run.FirstSeq-1, true, func(events []agent.Event) (bool, error) {
		for _, e := range events {
			v.show(e, &out.Buf)
		}
		v.open(&out.Buf)
		if len(events) < rest.Batch && !v.hasEnded { // the end of the journal so far
			written.show(v.lastID, &out.Buf)
		}
		return v.hasEnded, out.Flush()
	}, waiting{
		idle: func() error {
			writeFrame(&out.Buf, "", "heartbeat", struct{}{})
			return out.Flush()
		},
		onNews: written.onNews,
		news: func() error {
			written.show(v.lastID, &out.Buf)
			return out.Flush()
		},
	})
	if errors.Is(err, store.ErrNotFound) {
		writeFrame(&out.Buf, "", "error", rest.ErrorInnerJSON{Code: "agent_not_found", Message: "the agent was deleted"})
		writeFrame(&out.Buf, "", "done", struct{}{})
		return out.Flush()
	}
	return err
}

// retention returns how long the stream of a run can still be resumed. This is
// the time until the unused agent is deleted. An agent with an active run is
// not deleted, so for such an agent the whole retention period remains. The
// result is never negative.
func retention(settled account.Settings, a agent.Agent, run agent.Run, now time.Time) time.Duration {
	at := agents.DeletedAt(settled, a)
	switch {
	case at == nil:
		return keptForever
	case run.EndedAt.IsZero():
		return time.Duration(settled.RetentionDays) * 24 * time.Hour
	}
	return max(at.Sub(now), 0)
}

// follow passes the agent's events after the given number to the function take,
// in batches, until take returns true. At the journal's end follow waits, or
// returns if wait is false. The first batch may be empty.
func (s *API) follow(ctx context.Context, id string, after int64, wait bool, take func([]agent.Event) (bool, error), w waiting) error {
	for {
		events, err := s.Journal.Read(ctx, id, after, rest.Batch)
		if err != nil {
			return fmt.Errorf("read %s: %w", id, err)
		}
		if enough, err := take(events); enough || err != nil {
			return err
		}
		if len(events) > 0 {
			after = events[len(events)-1].Seq
			continue
		}
		if !wait {
			return nil
		}
		if err := s.await(ctx, id, after, w); err != nil {
			return err
		}
	}
}

// waiting holds the callbacks that are used while the journal does not grow.
type waiting struct {
	idle   func() error                    // called every heartbeat
	onNews func(wake func()) (stop func()) // registers wake, to be called when there is news outside of the journal; may be nil
	news   func() error                    // called after wake
}

// await returns when the agent has an event after the number.
func (s *API) await(ctx context.Context, id string, after int64, w waiting) error {
	for {
		beat, cancel := context.WithTimeout(ctx, s.Heartbeat)
		stop := func() {}
		if w.onNews != nil {
			stop = w.onNews(cancel)
		}
		err := s.Journal.Wait(beat, id, after)
		stop()
		why := beat.Err()
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case why == nil:
			return fmt.Errorf("wait for %s: %w", id, err)
		case errors.Is(why, context.DeadlineExceeded):
			err = w.idle()
		default:
			err = w.news()
		}
		if err != nil {
			return err
		}
	}
}
