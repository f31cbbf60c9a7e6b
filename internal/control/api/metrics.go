package api

import (
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"aloft/internal/account"
	"aloft/internal/fault"
	"aloft/internal/telemetry"
)

// metrics serves Prometheus. The figures cover all users, so only admins may
// read them.
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

// traced starts the span of a request that starts a run, as a child of the span
// that the client names in its header.
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

// traceOf returns the trace context for a new run: the request's span, or what
// the client sent if the server traces nothing. It may be "".
func traceOf(r *http.Request) string {
	return telemetry.Format(trace.SpanContextFromContext(r.Context()))
}
