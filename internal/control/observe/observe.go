// Package observe makes metrics and traces of the journal. It stands before a
// store's journal and sees what this server appends, so that nothing else has to
// be told to count or to measure. What it says is made of ids, names of our own,
// times and counts; what was said, read or run is never in it.
//
// A run's trace is made when the run has ended, from the run's own events: it is
// the same whoever worked the run, and whichever server died meanwhile.
package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/telemetry"
)

// Config is what an observer works with.
type Config struct {
	Journal   store.Journal
	Agents    store.Agents
	Telemetry *telemetry.Telemetry // where to send to; nil sends nothing
	// Privacy reports whether a run is in privacy mode, which has no trace; nil is
	// never.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	Logger  *slog.Logger
}

// Observer counts and measures. Its methods are safe for concurrent use.
type Observer struct {
	journal store.Journal
	agents  store.Agents
	tracer  trace.Tracer // nil where no traces are sent
	privacy func(context.Context, agent.Run) (bool, error)
	log     *slog.Logger

	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
	meters   meters
	tracing  sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*underWay // by run; only those of which something is to be remembered
}

// underWay is what is remembered of a run to make sense of its next event.
type underWay struct {
	calls   map[string]string // tools by the ids of calls
	booting time.Time         // when the machine that is not ready was begun
}

// empty reports whether there is nothing to remember.
func (r *underWay) empty() bool { return len(r.calls) == 0 && r.booting.IsZero() }

// New makes an observer. Close it when done.
func New(c Config) (*Observer, error) {
	o := &Observer{
		journal: c.Journal, agents: c.Agents, log: c.Logger, privacy: c.Privacy,
		reader: sdkmetric.NewManualReader(), runs: map[string]*underWay{},
	}
	if c.Telemetry != nil {
		o.tracer = c.Telemetry.Tracer()
	}
	options := []sdkmetric.Option{sdkmetric.WithReader(o.reader)}
	if sent := c.Telemetry.Metrics(); sent != nil {
		options = append(options, sdkmetric.WithReader(sent))
	}
	o.provider = sdkmetric.NewMeterProvider(options...)
	var err error
	o.meters, err = newMeters(o.provider.Meter("aloft"), o.active)
	return o, err
}

// Close waits for the traces that are being made, and ends the metrics.
func (o *Observer) Close(ctx context.Context) error {
	o.tracing.Wait()
	return o.provider.Shutdown(ctx)
}

// Journal returns the journal that is to be used in the place of the store's.
func (o *Observer) Journal() store.Journal { return journal{o.journal, o} }

type journal struct {
	store.Journal
	by *Observer
}

func (j journal) Append(ctx context.Context, a store.Append) ([]agent.Event, error) {
	start := time.Now()
	events, err := j.Journal.Append(ctx, a)
	j.by.meters.appended(ctx, time.Since(start), err)
	if err == nil {
		j.by.saw(ctx, a.AgentID, events)
	}
	return events, err
}

// saw takes up events that are in the journal.
func (o *Observer) saw(ctx context.Context, agentID string, events []agent.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range events {
		o.meters.event(ctx, e)
		if e.RunID == "" {
			continue
		}
		r := o.runs[e.RunID]
		if r == nil {
			r = &underWay{calls: map[string]string{}}
		}
		o.meters.runEvent(ctx, e, r)
		if o.runs[e.RunID] = r; r.empty() {
			delete(o.runs, e.RunID)
		}
		if _, ended := e.Body.(*agent.RunEnded); ended {
			delete(o.runs, e.RunID)
			if o.tracer != nil {
				o.tracing.Go(func() { o.trace(context.WithoutCancel(ctx), agentID, e) })
			}
		}
	}
}

// active counts the runs that have not ended, on all servers, by status.
func (o *Observer) active(ctx context.Context) (map[agent.Status]int64, error) {
	runs, err := o.agents.OpenRuns(ctx)
	if err != nil {
		return nil, err
	}
	count := map[agent.Status]int64{agent.Creating: 0, agent.Running: 0}
	for _, r := range runs {
		count[r.Status]++
	}
	return count, nil
}
