package telemetry

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
)

// Bounds of what a machine sends of its spans.
const (
	maxRelayed      = 1 << 20 // bytes of a request
	maxRelayedSpans = 2048    // of a request; an exporter sends 512
	relayEvery      = time.Second
	relayBurst      = 10
)

var (
	relayedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,127}$`)
	relayedKeys = []string{"call", "tool", "error"}
)

// Relay takes the spans of exec-daemon in a machine, as OTLP over gRPC, and sends
// on what it knows of them. What comes is not believed: of a span are kept its
// ids, its times, and names and attributes that look like exec-daemon's own, and
// only where it belongs to the trace that of returns. hide takes secrets out of a
// word. A nil Telemetry has no relay.
func (t *Telemetry) Relay(of func(context.Context) (trace.TraceID, error), hide func(string) string) http.Handler {
	if t == nil {
		return nil
	}
	send := call[tracepb.TracesData](t.send, tracesPath)
	limit := rate.NewLimiter(rate.Every(relayEvery), relayBurst)
	handler := connect.NewUnaryHandler(tracesPath, func(ctx context.Context, req *connect.Request[tracepb.TracesData]) (*connect.Response[ignored], error) {
		if !limit.Allow() {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many spans: they are lost"))
		}
		traceID, err := of(ctx)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("the trace is not known"))
		}
		if spans := relayed(req.Msg, traceID, hide); len(spans) > 0 {
			// A receiver that is away is nothing that a machine could mend.
			_ = send(ctx, &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
				Resource:   &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("service.name", "exec-daemon")}},
				ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "aloft"}, Spans: spans}},
			}}})
		}
		return connect.NewResponse(&ignored{}), nil
	}, connect.WithReadMaxBytes(maxRelayed))
	routes := http.NewServeMux()
	routes.Handle(tracesPath, handler)
	return routes
}

// relayed are the spans that are sent on.
func relayed(data *tracepb.TracesData, of trace.TraceID, hide func(string) string) (kept []*tracepb.Span) {
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				parent := len(s.GetParentSpanId())
				if len(kept) == maxRelayedSpans || string(s.GetTraceId()) != string(of[:]) || len(s.GetSpanId()) != 8 || parent != 0 && parent != 8 ||
					!relayedName.MatchString(s.GetName()) || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
					continue
				}
				span := &tracepb.Span{
					TraceId: s.GetTraceId(), SpanId: s.GetSpanId(), ParentSpanId: s.GetParentSpanId(), Name: hide(s.GetName()),
					Kind: s.GetKind(), StartTimeUnixNano: s.GetStartTimeUnixNano(), EndTimeUnixNano: s.GetEndTimeUnixNano(),
					Status: &tracepb.Status{Code: s.GetStatus().GetCode()},
				}
				for _, a := range s.GetAttributes() {
					if !slices.Contains(relayedKeys, a.GetKey()) || len(span.GetAttributes()) == len(relayedKeys) {
						continue
					}
					switch v := a.GetValue().GetValue().(type) {
					case *commonpb.AnyValue_BoolValue:
						span.Attributes = append(span.Attributes, &commonpb.KeyValue{Key: a.GetKey(), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.BoolValue}}})
					case *commonpb.AnyValue_StringValue:
						if relayedName.MatchString(v.StringValue) {
							span.Attributes = append(span.Attributes, text(a.GetKey(), hide(v.StringValue)))
						}
					}
				}
				kept = append(kept, span)
			}
		}
	}
	return kept
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}
