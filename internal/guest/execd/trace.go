package execd

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"aloft/internal/telemetry"
)

// tracing records a span for each request and each call, and counts them. A
// span contains the name of the request or call and its status, but no
// arguments or results.
type tracing struct {
	tracer trace.Tracer
	meter  *telemetry.MachineMeter
	run    atomic.Pointer[trace.SpanContext] // the run of the latest request; a machine serves one run at a time
}

func newTracing(tracer trace.Tracer, meter *telemetry.MachineMeter) *tracing {
	var off *telemetry.Telemetry
	if tracer == nil {
		tracer = off.Tracer()
	}
	return &tracing{tracer: tracer, meter: meter}
}

// call begins the span of a call, as a child of the server's span for the call.
// end ends it.
func (t *tracing) call(ctx context.Context, id, tool string) (_ context.Context, end func(failed bool)) {
	if run := t.run.Load(); run != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, telemetry.Span(*run, "call "+id))
	}
	start := time.Now()
	ctx, span := t.tracer.Start(ctx, "exec "+tool, trace.WithAttributes(attribute.String("call", id), attribute.String("tool", tool)))
	return ctx, func(failed bool) {
		t.meter.Call(ctx, tool, failed, time.Since(start))
		span.SetAttributes(attribute.Bool("error", failed))
		if failed {
			span.SetStatus(otelcodes.Error, "")
		}
		span.End()
	}
}

// rpc begins the span of a request.
func (t *tracing) rpc(ctx context.Context, spec connect.Spec, header http.Header) (_ context.Context, end func(error)) {
	parent := telemetry.Parse(cmp.Or(header.Get(telemetry.BackendHeader), header.Get(telemetry.Header)))
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		t.run.Store(&parent)
	}
	ctx, span := t.tracer.Start(ctx, spec.Procedure[1:], trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(err error) {
		code := "ok"
		if err != nil {
			code = connect.CodeOf(err).String()
			span.SetStatus(otelcodes.Error, code)
		}
		t.meter.Request(ctx, spec.Procedure[1:], code)
		span.End()
	}
}

// WrapUnary implements [connect.Interceptor].
func (t *tracing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := t.rpc(ctx, req.Spec(), req.Header())
		res, err := next(ctx, req)
		end(err)
		return res, err
	}
}

// WrapStreamingClient implements [connect.Interceptor]; there is no client here.
func (*tracing) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (t *tracing) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		ctx, end := t.rpc(ctx, conn.Spec(), conn.RequestHeader())
		err := next(ctx, conn)
		end(err)
		return err
	}
}
