package telemetry

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// maxAttribute is the longest attribute that is sent, in characters.
const maxAttribute = 256

// sent are the log attributes that are sent: ids, Aloft's own names, outcomes and times.
// Other attributes are not sent, because they may contain any data: an error may quote a
// file or a command's output.
var sent = []string{
	"agent", "run", "call", "machine", "boot", "tool", "rpc", "request", "route", "method", "status", "code", "user",
	"took", "duration", "attempt", "bytes", "outcome", "names", "signal", "process",
}

// Handler returns a handler that forwards records to next, and also sends those of level
// info and above.
func (t *Telemetry) Handler(next slog.Handler) slog.Handler {
	if t == nil {
		return next
	}
	return handler{next: next, logger: t.logs.Logger("aloft")}
}

type handler struct {
	next   slog.Handler
	logger log.Logger
	attrs  []attribute.KeyValue
	deep   bool // inside a group, whose attributes are not sent
}

// Enabled implements [slog.Handler].
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo {
		var out log.Record
		out.SetTimestamp(r.Time)
		out.SetSeverity(log.Severity(int(r.Level) + int(log.SeverityInfo))) // both scales have steps of four
		out.SetSeverityText(r.Level.String())
		out.SetBody(attribute.StringValue(r.Message))
		out.AddAttributes(h.attrs...)
		r.Attrs(func(a slog.Attr) bool {
			out.AddAttributes(h.keep(a)...)
			return true
		})
		h.logger.Emit(ctx, out)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h handler) keep(a slog.Attr) []attribute.KeyValue {
	if h.deep || !slices.Contains(sent, a.Key) {
		return nil
	}
	return []attribute.KeyValue{attribute.String(a.Key, a.Value.Resolve().String())}
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next, h.attrs = h.next.WithAttrs(attrs), slices.Clone(h.attrs)
	for _, a := range attrs {
		h.attrs = append(h.attrs, h.keep(a)...)
	}
	return h
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler {
	h.next, h.deep = h.next.WithGroup(name), true
	return h
}
