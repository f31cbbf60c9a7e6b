package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"aloft/internal/agent"
	"aloft/internal/control/model"
	"aloft/internal/control/store"
	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// meters holds all metrics of a server. Counters start at 0 when the server
// starts.
type meters struct {
	runsStarted, runsEnded     metric.Int64Counter
	toolCalls, modelCalls      metric.Int64Counter
	tokens, appends, events    metric.Int64Counter
	machinesLost, fallbacks    metric.Int64Counter
	boot, toolTime, appendTime metric.Float64Histogram
	prompts                    *promptTokens
}

func newMeters(m metric.Meter, active func(context.Context) (map[agent.Status]int64, error)) (meters, error) {
	all := meters{prompts: &promptTokens{byModel: map[string]promptCount{}}}
	var wrong error
	counter := func(to *metric.Int64Counter, name, words string) {
		c, err := m.Int64Counter(name, metric.WithDescription(words))
		*to, wrong = c, errors.Join(wrong, err)
	}
	seconds := func(to *metric.Float64Histogram, name, words string, bounds ...float64) {
		h, err := m.Float64Histogram(name, metric.WithDescription(words), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(bounds...))
		*to, wrong = h, errors.Join(wrong, err)
	}
	counter(&all.runsStarted, "aloft_runs_started", "Requested runs.")
	counter(&all.runsEnded, "aloft_runs_ended", "Runs that have ended, by status and, for ERROR, by code.")
	counter(&all.toolCalls, "aloft_tool_calls", "Finished tool calls, by tool and outcome.")
	counter(&all.modelCalls, "aloft_model_requests", "Requests to models, by model and outcome.")
	counter(&all.fallbacks, "aloft_model_fallbacks", "Fallbacks from a model whose provider was busy to another model, by both.")
	counter(&all.tokens, "aloft_tokens", "Tokens, by model and kind.")
	counter(&all.appends, "aloft_journal_appends", "Writes to the journal, by outcome.")
	counter(&all.events, "aloft_journal_events", "Events in the journal, by kind.")
	counter(&all.machinesLost, "aloft_machines_lost", "Machines that stopped unexpectedly.")
	seconds(&all.boot, "aloft_machine_boot_seconds", "Time from the decision to create or start a machine until it is ready.",
		.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)
	seconds(&all.toolTime, "aloft_tool_call_seconds", "Duration of tool calls in the machine.", .001, .005, .01, .05, .1, .5, 1, 5, 30, 120, 600)
	seconds(&all.appendTime, "aloft_event_latency_seconds", "Time to write events to disk.", .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1)
	_, err := m.Int64ObservableGauge("aloft_runs_active", metric.WithDescription("Runs that have not ended, of all servers, by status."),
		metric.WithInt64Callback(func(ctx context.Context, to metric.Int64Observer) error {
			counts, err := active(ctx)
			for status, n := range counts {
				to.Observe(n, label("status", string(status)))
			}
			return err
		}))
	_, cacheErr := m.Float64ObservableGauge("aloft_prompt_cache_hit_ratio", metric.WithDescription("Share of the prompts' tokens that providers read from their caches, by model, since the server started."),
		metric.WithFloat64Callback(all.prompts.observe))
	return all, errors.Join(wrong, err, cacheErr)
}

// promptTokens counts the tokens of prompts. It is safe for concurrent use.
type promptTokens struct {
	mu      sync.Mutex
	byModel map[string]promptCount
}

type promptCount struct{ cached, all int64 }

func (p *promptTokens) add(of string, u conversation.Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.byModel[of]
	n.cached += u.CacheRead
	n.all += u.Input + u.CacheRead + u.CacheWrite
	p.byModel[of] = n
}

func (p *promptTokens) observe(_ context.Context, to metric.Float64Observer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of, n := range p.byModel {
		if n.all > 0 {
			to.Observe(float64(n.cached)/float64(n.all), label("model", of))
		}
	}
	return nil
}

// label returns an option with attributes, given as names and values.
func label(pairs ...string) metric.MeasurementOption {
	var kvs []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		kvs = append(kvs, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributes(kvs...)
}

// appended counts a write to the journal.
func (m *meters) appended(ctx context.Context, took time.Duration, err error) {
	outcome := "ok"
	switch {
	case err == nil:
		m.appendTime.Record(ctx, took.Seconds())
	case errors.Is(err, store.ErrMoved):
		outcome = "moved"
	case errors.Is(err, store.ErrLeaseLost):
		outcome = "lease_lost"
	case errors.Is(err, store.ErrFull):
		outcome = "full"
	case errors.Is(err, store.ErrUnreachable):
		outcome = "unreachable"
	case errors.Is(err, store.ErrUnknown):
		outcome = "unknown"
	default:
		outcome = "error"
	}
	m.appends.Add(ctx, 1, label("outcome", outcome))
}

func (m *meters) event(ctx context.Context, e agent.Event) {
	m.events.Add(ctx, 1, label("kind", e.Body.Kind()))
}

// runEvent counts an event of a run, and stores in r the values that later
// events need.
func (m *meters) runEvent(ctx context.Context, e agent.Event, r *runningRun) {
	switch b := e.Inner().(type) {
	case *agent.RunCreated:
		m.runsStarted.Add(ctx, 1)
	case *agent.MachineMade:
		r.booting = e.Time
	case *agent.BootStep:
		if r.booting.IsZero() {
			r.booting = e.Time
		}
	case *agent.MachineReady:
		if !r.booting.IsZero() {
			m.boot.Record(ctx, e.Time.Sub(r.booting).Seconds())
		}
		r.booting = time.Time{}
	case *agent.MachineLost:
		m.machinesLost.Add(ctx, 1)
	case *agent.TurnReplied:
		m.modelCalls.Add(ctx, 1, label("model", b.Model, "outcome", "ok"))
		m.countUsage(ctx, b.Model, b.Usage)
		for _, c := range b.Message.Calls() {
			r.calls[c.ID] = toolName(c.Name)
		}
	case *agent.Compacted:
		m.countUsage(ctx, "", b.Usage)
	case *agent.Titled:
		m.countUsage(ctx, b.Model, b.Usage)
	case *agent.GoalJudged:
		m.countUsage(ctx, b.Model, b.Usage)
	case *agent.ImageGenerated:
		m.countUsage(ctx, b.Model, b.Usage)
	case *agent.Classified:
		m.countUsage(ctx, b.Model, b.Usage)
	case *agent.ModelFallback:
		m.fallbacks.Add(ctx, 1, label("from", b.From, "to", b.To))
	case *agent.ModelRetry:
		m.modelCalls.Add(ctx, 1, label("model", "", "outcome", b.Reason))
	case *agent.CallDone:
		outcome := "ok"
		if b.Error {
			outcome = "error"
		}
		name := r.calls[b.CallID]
		if name == "" { // the call was made before this server started
			name = unknownTool
		}
		delete(r.calls, b.CallID)
		m.toolCalls.Add(ctx, 1, label("tool", name, "outcome", outcome))
		m.toolTime.Record(ctx, float64(b.DurationMS)/1000, label("tool", name))
	case *agent.RunEnded:
		code := ""
		if b.Failure != nil {
			code = b.Failure.Code
			if isModels(code) {
				m.modelCalls.Add(ctx, 1, label("model", "", "outcome", code))
			}
		}
		m.runsEnded.Add(ctx, 1, label("status", string(b.Status), "code", code))
	}
}

// isModels reports whether a run's error was caused by its model.
func isModels(code string) bool {
	switch model.Reason(code) {
	case model.Unauthorized, model.Unreachable, model.NotFound, model.RateLimited, model.Overloaded, model.Cut, model.TooLong, model.BadRequest:
		return true
	}
	return false
}

func (m *meters) countUsage(ctx context.Context, of string, u conversation.Usage) {
	m.prompts.add(of, u)
	for kind, n := range map[string]int64{"input": u.Input, "output": u.Output, "cache_read": u.CacheRead, "cache_write": u.CacheWrite} {
		if n > 0 {
			m.tokens.Add(ctx, n, label("model", of, "kind", kind))
		}
	}
}

// Embedded counts the tokens of a request for embeddings.
func (o *Observer) Embedded(ctx context.Context, of string, tokens int64) {
	if tokens > 0 {
		o.meters.tokens.Add(ctx, tokens, label("model", of, "kind", "embedding"))
	}
}

const unknownTool = "unknown"

// toolName returns the name of a tool in the catalogue, or a placeholder,
// because a model may call a tool by any text.
func toolName(name string) string {
	if _, ok := tool.Lookup(name); !ok {
		return unknownTool
	}
	return name
}
