package observe

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"aloft/internal/agent"
	"aloft/internal/telemetry"
)

// span is one span of a run's trace. telemetry.Span derives the ids of OpenTelemetry
// from id and parent.
type span struct {
	id, parent string // parent is "" for the run
	name       string
	start, end time.Time
	failed     bool
	attributes []attribute.KeyValue
}

// readBatch is how many events are read at once.
const readBatch = 1000

// trace sends the trace of a run that has ended.
func (o *Observer) trace(ctx context.Context, agentID string, last agent.Event) {
	run, err := o.agents.Run(ctx, agentID, last.RunID)
	if err == nil && o.privacy != nil {
		var private bool
		if private, err = o.privacy(ctx, run); private {
			return
		}
	}
	var events []agent.Event
	for after := run.FirstSeq - 1; err == nil && after < last.Seq; {
		var more []agent.Event
		more, err = o.journal.Read(ctx, agentID, after, readBatch)
		if len(more) == 0 {
			break
		}
		after = more[len(more)-1].Seq
		for _, e := range more {
			if e.RunID == last.RunID && !isPiece(e.Inner()) {
				events = append(events, e)
			}
		}
	}
	if err != nil || len(events) == 0 {
		o.log.DebugContext(ctx, "no trace of a run", "run", last.RunID, "error", err)
		return
	}
	parent := ""
	if first, ok := events[0].Body.(*agent.RunCreated); ok {
		parent = first.Trace
	}
	of := telemetry.Run(last.RunID, parent)
	o.send(ctx, span{
		name: "run", start: events[0].Time, end: last.Time, failed: run.Status == agent.Failed,
		attributes: []attribute.KeyValue{
			attribute.String("agent", agentID), attribute.String("run", last.RunID), attribute.String("status", string(run.Status)),
			attribute.Int64("turns", int64(run.Turns)), attribute.Int64("tokens", run.Usage.Total()),
		},
	}, of, telemetry.Parse(parent))
	for _, s := range spansOf(events) {
		above := of
		if s.parent != "" {
			above = telemetry.Span(of, s.parent)
		}
		o.send(ctx, s, telemetry.Span(of, s.id), above)
	}
}

// send creates the span. as is the span's own context, which contains its ids;
// above is the context of its parent.
func (o *Observer) send(ctx context.Context, s span, as, above trace.SpanContext) {
	if above.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, above)
	}
	_, made := o.tracer.Start(telemetry.WithID(ctx, as), s.name, trace.WithTimestamp(s.start), trace.WithAttributes(s.attributes...))
	if s.failed {
		made.SetStatus(codes.Error, "")
	}
	made.End(trace.WithTimestamp(s.end))
}

// isPiece reports whether a later event contains the content of this event
// completely, as is the case for deltas. There may be very many such events.
func isPiece(b agent.Body) bool {
	switch b.(type) {
	case *agent.TextDelta, *agent.ThinkingDelta, *agent.CallDelta:
		return true
	}
	return false
}

// spansOf returns the spans below the run's span. A model request starts after
// all other work, so its span begins at the time of the event before the reply.
func spansOf(events []agent.Event) []span {
	var all []span
	turn := -1 // index of its span in all
	calls := map[string]*span{}
	turns, steps := 0, 0
	before := time.Time{}
	for _, e := range events {
		switch b := e.Body.(type) {
		case *agent.TurnReplied:
			turns++
			id := fmt.Sprintf("turn %d", turns)
			turn = len(all)
			all = append(all,
				span{id: id, name: "turn", start: before, end: e.Time, attributes: []attribute.KeyValue{attribute.Int("turn", turns)}},
				span{id: "model " + id, parent: id, name: "model", start: before, end: e.Time, attributes: []attribute.KeyValue{
					attribute.String("model", b.Model), attribute.Int64("tokens", b.Usage.Total()),
				}})
			for _, c := range b.Message.Calls() {
				name := toolName(c.Name)
				calls[c.ID] = &span{id: "call " + c.ID, parent: id, name: "tool " + name, start: e.Time, attributes: []attribute.KeyValue{
					attribute.String("call", c.ID), attribute.String("tool", name),
				}}
			}
		case *agent.ModelRetry:
			all = append(all, span{id: fmt.Sprintf("retry %d", e.Seq), name: "model", start: before, end: e.Time, failed: true,
				attributes: []attribute.KeyValue{attribute.String("reason", b.Reason)}})
		case *agent.CallSent:
			if c := calls[b.CallID]; c != nil {
				c.start = e.Time
			}
		case *agent.CallDone:
			if c := calls[b.CallID]; c != nil {
				c.end, c.failed = e.Time, b.Error
				all = append(all, *c)
				delete(calls, b.CallID)
				all[turn].end = e.Time
			}
		case *agent.BootStep:
			if b.State == "running" {
				break // the event for the end of the step contains its duration
			}
			steps++
			took := time.Duration(b.DurationMS) * time.Millisecond
			all = append(all, span{id: fmt.Sprintf("boot %d", steps), name: "boot " + stepName(b.Name),
				start: e.Time.Add(-took), end: e.Time, failed: b.State == "failed"})
		case *agent.Committed:
			all = append(all, span{id: fmt.Sprintf("commit %d", e.Seq), name: "commit", start: before, end: e.Time})
		case *agent.Pushed:
			all = append(all, span{id: fmt.Sprintf("push %d", e.Seq), name: "push", start: before, end: e.Time})
		}
		before = e.Time
	}
	return all
}

var plainName = regexp.MustCompile(`^[a-z][a-z-]{0,31}$`)

// stepName returns the name of a boot step. Names come from the machine, so a
// name that is not a plain word is replaced.
func stepName(name string) string {
	if !plainName.MatchString(name) {
		return "step"
	}
	return name
}
