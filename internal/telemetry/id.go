package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header and BackendHeader carry a trace context in the format of W3C's traceparent. The
// server sends BackendHeader to a machine, and never forwards it from outside.
const (
	Header        = "traceparent"
	BackendHeader = "backend-traceparent"
)

// Parse parses a traceparent. It returns the empty context if header is invalid. The
// result is always sampled, regardless of the flags, because the server itself decides
// which traces to record.
func Parse(header string) trace.SpanContext {
	if len(header) > 512 {
		return trace.SpanContext{}
	}
	carrier := propagation.MapCarrier{Header: strings.TrimSpace(header)}
	c := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
	if !c.IsValid() {
		return trace.SpanContext{}
	}
	return c.WithTraceFlags(trace.FlagsSampled)
}

// Format formats a traceparent; it returns "" for the empty context.
func Format(c trace.SpanContext) string {
	if !c.IsValid() {
		return ""
	}
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + hex.EncodeToString([]byte{byte(c.TraceFlags())})
}

// Run returns the span context of a run. If parent, a traceparent from the request for
// the run, is valid, the run is in its trace; otherwise in a trace of its own. Ids are
// derived from names, so that other servers and exec-daemon can compute the same span.
func Run(runID, parent string) trace.SpanContext {
	traceID := Parse(parent).TraceID()
	if !traceID.IsValid() {
		sum := sha256.Sum256([]byte("trace " + runID))
		traceID = trace.TraceID(sum[:16])
	}
	return Span(trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID}), "run "+runID)
}

// Span returns the context of the span with that name in of's trace.
func Span(of trace.SpanContext, name string) trace.SpanContext {
	traceID := of.TraceID()
	sum := sha256.Sum256(append(traceID[:], name...))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

type idKey struct{}

// WithID makes the next span that is started with the context take its ids from
// c.
func WithID(ctx context.Context, c trace.SpanContext) context.Context {
	return context.WithValue(ctx, idKey{}, c)
}

// ids gives spans the ids in their context, or random ones.
type ids struct{}

// NewIDs implements [sdktrace.IDGenerator].
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, ok := ctx.Value(idKey{}).(trace.SpanContext); ok {
		return c.TraceID(), c.SpanID()
	}
	var id trace.TraceID
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return id, randomSpan()
}

// NewSpanID implements [sdktrace.IDGenerator].
func (ids) NewSpanID(ctx context.Context, of trace.TraceID) trace.SpanID {
	if c, ok := ctx.Value(idKey{}).(trace.SpanContext); ok && c.TraceID() == of {
		return c.SpanID()
	}
	return randomSpan()
}

func randomSpan() (id trace.SpanID) {
	_, _ = rand.Read(id[:])
	return id
}
