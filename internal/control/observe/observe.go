// Package observe derives metrics and traces from the journal. It wraps the
// store's journal and sees what this server appends, so no other code has to
// count or measure. Its output consists of ids, our own names, times and
// counts; it never contains text of conversations, files or commands.
//
// The trace of a run is created from the run's events when the run has ended.
// So the trace does not depend on which servers worked on the run, and whether
// some of them crashed.
//
// prometheus.go writes the text format itself: OpenTelemetry's exporter would
// add Prometheus's client library, which makes the program 2.6 MiB larger, in
// place of 100 lines.
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

// Config configures an observer.
type Config struct {
	Journal   store.Journal
	Agents    store.Agents
	Telemetry *telemetry.Telemetry // where to send traces; nil sends none
	// Privacy reports whether a run is in privacy mode; such runs have no
	// trace. If it is nil, no run is.
	Privacy func(ctx context.Context, r agent.Run) (bool, error)
	Logger  *slog.Logger
}

// Observer counts and measures. Its methods are safe for concurrent use.
type Observer struct {
	journal store.Journal
	agents  store.Agents
	tracer  trace.Tracer // nil if no traces are sent
	privacy func(context.Context, agent.Run) (bool, error)
	log     *slog.Logger

	reader   *sdkmetric.ManualReader
	provider *sdkmetric.MeterProvider
	meters   meters
	tracing  sync.WaitGroup

	mu   sync.Mutex
	runs map[string]*runningRun // by run id; contains only runs with data
}

// runningRun is data about a run that is needed to interpret later events.
type runningRun struct {
	calls   map[string]string // tool names by call id
	booting time.Time         // when the boot of the machine began; zero if it is ready
}

// empty reports whether there is no data.
func (r *runningRun) empty() bool { return len(r.calls) == 0 && r.booting.IsZero() }

// New returns an observer. The caller must call Close.
func New(c Config) (*Observer, error) {
	o := &Observer{
		journal: c.Journal, agents: c.Agents, log: c.Logger, privacy: c.Privacy,
		reader: sdkmetric.NewManualReader(), runs: map[string]*runningRun{},
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

// Close waits for the traces in progress, and ends the metrics.
func (o *Observer) Close(ctx context.Context) error {
	o.tracing.Wait()
	return o.provider.Shutdown(ctx)
}

// Journal returns a journal that must be used instead of the store's.
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

// saw handles events that were appended to the journal.
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
			r = &runningRun{calls: map[string]string{}}
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
