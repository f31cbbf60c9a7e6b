package api

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"aloft/internal/account"
	"aloft/internal/fault"
	"aloft/internal/telemetry"
)

// metrics answers Prometheus. What it counts is everybody's, so only the admin
// may read it.
func (s *server) metrics(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if s.Metrics == nil {
		return fault.NotImplemented("metrics are not enabled on this server").Named(codeOff)
	}
	text, err := s.Metrics(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err = w.Write(text)
	return err
}

var traceParam = param{name: telemetry.Header, kind: "string", words: "W3C trace context, which the run's trace continues"}

// traced begins the span of a request that begins a run, below the place in a
// trace that its client names.
func (s *server) traced(r *http.Request, rt route) (_ *http.Request, end func()) {
	if !slices.ContainsFunc(rt.header, func(p param) bool { return p.name == traceParam.name }) {
		return r, func() {}
	}
	ctx := r.Context()
	if parent := telemetry.Parse(r.Header.Get(telemetry.Header)); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	ctx, span := s.Tracer.Start(ctx, rt.method+" "+rt.path, trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx), func() { span.End() }
}

// traceOf returns the place in a trace where a run's begins: the request's span,
// or what its client named where there is none. It may be "".
func traceOf(r *http.Request) string {
	return telemetry.Format(trace.SpanContextFromContext(r.Context()))
}
