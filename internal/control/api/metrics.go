package api

import (
	"net/http"
	"slices"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/telemetry"

	"go.opentelemetry.io/otel/trace"
)

// metrics serves Prometheus. The figures cover all users, so only admins may
// read them.
func (s *server) metrics(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	if s.config.Metrics == nil {
		return fault.NotImplemented("metrics are not enabled on this server").Named(rest.CodeOff)
	}
	text, err := s.config.Metrics(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err = w.Write(text)
	return err
}

// traced starts the span of a request that starts a run, as a child of the span
// that the client names in its header.
func (s *server) traced(r *http.Request, rt rest.Route) (_ *http.Request, end func()) {
	if !slices.ContainsFunc(rt.Header, func(p rest.Param) bool { return p.Name == rest.TraceParam.Name }) {
		return r, func() {}
	}
	ctx := r.Context()
	if parent := telemetry.Parse(r.Header.Get(telemetry.Header)); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	ctx, span := s.config.Tracer.Start(ctx, rt.Method+" "+rt.Path, trace.WithSpanKind(trace.SpanKindServer))
	return r.WithContext(ctx), func() { span.End() }
}
