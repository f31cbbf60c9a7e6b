package telemetry

import (
	"context"
	"errors"
	"math"
	"net/http"
	"regexp"
	"slices"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/time/rate"
)

// Limits of the telemetry that a machine sends, for each kind.
const (
	maxRelayed        = 1 << 19 // bytes of a request
	maxRelayedSpans   = 2048    // per request; an exporter sends at most 512
	maxRelayedRecords = 512     // per request, as many as an exporter sends
	maxRelayedPoints  = 512     // per request, for at most three metrics, by tool or RPC
	relayEvery        = time.Second
	relayBurst        = 10
)

var (
	relayedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._/-]{0,127}$`)
	// relayedWords matches log messages: a sentence without characters that are typical of
	// values.
	relayedWords = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 .,;:'/()_-]{0,199}$`)
	relayedKeys  = []string{"call", "tool", "error", "rpc", "code", "outcome"}
)

// From identifies the source of the telemetry that a relay receives. The machine cannot
// influence it.
type From struct {
	Agent   string // the resource attribute "agent"
	Machine string // the resource attribute service.instance.id
	// Trace returns the trace of the current run. Only spans of this trace are forwarded.
	Trace func(context.Context) (trace.TraceID, error)
	Hide  func(string) string // redacts secrets in a text
	// Private reports whether the current run is in privacy mode, in which nothing is
	// forwarded. A nil Private means never.
	Private func(context.Context) (bool, error)
}

// Relay receives the telemetry of exec-daemon in a machine, as OTLP over gRPC, and
// forwards the parts that it recognizes. The data is untrusted. The relay keeps only
// names, texts and attributes that look like exec-daemon's own, plausible ids, times and
// numbers, and spans of the permitted trace. from identifies the machine's agent. A nil
// Telemetry has no relay.
func (t *Telemetry) Relay(from From) http.Handler {
	if t == nil {
		return nil
	}
	r := relay{From: from, resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
		text("service.name", "exec-daemon"), text("service.instance.id", from.Machine), text("agent", from.Agent),
	}}}
	routes := http.NewServeMux()
	take(routes, t.send, tracesPath, unlessPrivate(from, r.spans))
	take(routes, t.send, metricsPath, unlessPrivate(from, r.metrics))
	take(routes, t.send, logsPath, unlessPrivate(from, r.logs))
	return routes
}

type relay struct {
	From
	resource *resourcepb.Resource
}

// take serves one OTLP service: it forwards the parts of a message that clean
// keeps, if any.
func take[T any](routes *http.ServeMux, send sender, path string, clean func(context.Context, *T) (*T, error)) {
	forward := call[T](send, path)
	limit := rate.NewLimiter(rate.Every(relayEvery), relayBurst)
	one := make(chan struct{}, 1)
	refusal := connect.NewErrorWriter()
	handler := connect.NewUnaryHandler(path, func(ctx context.Context, req *connect.Request[T]) (*connect.Response[ignored], error) {
		message, err := clean(ctx, req.Msg)
		if err != nil {
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("the trace is unknown"))
		}
		if message != nil {
			_ = forward(ctx, message) // ignore the error: the machine cannot do anything about an unreachable receiver
		}
		return connect.NewResponse(&ignored{}), nil
	}, connect.WithReadMaxBytes(maxRelayed))
	// A decoded message takes many times its size: check the limits before it is
	// read, and decode one message at a time.
	routes.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if !limit.Allow() {
			_ = refusal.Write(w, r, errTooMuch) // the error cannot be reported to anyone
			return
		}
		select {
		case one <- struct{}{}:
			defer func() { <-one }()
			handler.ServeHTTP(w, r)
		default:
			_ = refusal.Write(w, r, errTooMuch)
		}
	})
}

// errTooMuch refuses telemetry that arrives too fast.
var errTooMuch = connect.NewError(connect.CodeResourceExhausted, errors.New("too much telemetry: it was dropped"))

// unlessPrivate wraps clean so that it drops everything in privacy mode, or if
// the mode cannot be determined.
func unlessPrivate[T any](from From, clean func(context.Context, *T) (*T, error)) func(context.Context, *T) (*T, error) {
	if from.Private == nil {
		return clean
	}
	return func(ctx context.Context, data *T) (*T, error) {
		private, err := from.Private(ctx)
		if private || err != nil {
			return nil, err
		}
		return clean(ctx, data)
	}
}

var relayedScope = &commonpb.InstrumentationScope{Name: "aloft"}

func (r relay) spans(ctx context.Context, data *tracepb.TracesData) (*tracepb.TracesData, error) {
	of, err := r.Trace(ctx)
	if err != nil {
		return nil, err
	}
	var kept []*tracepb.Span
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				parent := len(s.GetParentSpanId())
				if len(kept) == maxRelayedSpans || string(s.GetTraceId()) != string(of[:]) || len(s.GetSpanId()) != 8 || parent != 0 && parent != 8 ||
					!relayedName.MatchString(s.GetName()) || s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
					continue
				}
				kept = append(kept, &tracepb.Span{
					TraceId: s.GetTraceId(), SpanId: s.GetSpanId(), ParentSpanId: s.GetParentSpanId(), Name: r.Hide(s.GetName()),
					Kind: s.GetKind(), StartTimeUnixNano: s.GetStartTimeUnixNano(), EndTimeUnixNano: s.GetEndTimeUnixNano(),
					Status: &tracepb.Status{Code: s.GetStatus().GetCode()}, Attributes: r.attributes(s.GetAttributes(), relayedKeys),
				})
			}
		}
	}
	if len(kept) == 0 {
		return nil, nil //nolint:nilnil // nothing is left, which is not an error
	}
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: r.resource, ScopeSpans: []*tracepb.ScopeSpans{{Scope: relayedScope, Spans: kept}},
	}}}, nil
}

// logs keeps a record that belongs to a span only if the span is in the run's trace;
// other spans may belong to another agent.
func (r relay) logs(ctx context.Context, data *logspb.LogsData) (*logspb.LogsData, error) {
	of, err := r.Trace(ctx)
	if err != nil {
		return nil, err
	}
	var kept []*logspb.LogRecord
	for _, resource := range data.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, l := range scope.GetLogRecords() {
				level := l.GetSeverityNumber()
				if len(kept) == maxRelayedRecords || !relayedWords.MatchString(l.GetBody().GetStringValue()) || level < 0 || level > logspb.SeverityNumber_SEVERITY_NUMBER_FATAL4 {
					continue
				}
				record := &logspb.LogRecord{
					TimeUnixNano: l.GetTimeUnixNano(), ObservedTimeUnixNano: l.GetObservedTimeUnixNano(), SeverityNumber: level,
					Body: stringValue(r.Hide(l.GetBody().GetStringValue())), Attributes: r.attributes(l.GetAttributes(), sent),
				}
				if string(l.GetTraceId()) == string(of[:]) && len(l.GetSpanId()) == 8 {
					record.TraceId, record.SpanId = l.GetTraceId(), l.GetSpanId()
				}
				kept = append(kept, record)
			}
		}
	}
	if len(kept) == 0 {
		return nil, nil //nolint:nilnil // nothing is left, which is not an error
	}
	return &logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{{
		Resource: r.resource, ScopeLogs: []*logspb.ScopeLogs{{Scope: relayedScope, LogRecords: kept}},
	}}}, nil
}

// metrics keeps the metrics of exec-daemon, see [NewMachineMeter].
func (r relay) metrics(_ context.Context, data *metricspb.MetricsData) (*metricspb.MetricsData, error) {
	var kept []*metricspb.Metric
	points := 0
	for _, resource := range data.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				if out, n := r.metric(m); n > 0 && points+n <= maxRelayedPoints {
					kept, points = append(kept, out), points+n
				}
			}
		}
	}
	if len(kept) == 0 {
		return nil, nil //nolint:nilnil // nothing is left, which is not an error
	}
	return &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: r.resource, ScopeMetrics: []*metricspb.ScopeMetrics{{Scope: relayedScope, Metrics: kept}},
	}}}, nil
}

// metric returns the parts of a metric to forward, and its number of points.
func (r relay) metric(m *metricspb.Metric) (*metricspb.Metric, int) {
	kind := machineMetric(m.GetName())
	if kind == nil {
		return nil, 0
	}
	out := &metricspb.Metric{Name: kind.name, Description: kind.words, Unit: kind.unit}
	if kind.bounds == nil {
		sum := &metricspb.Sum{IsMonotonic: true, AggregationTemporality: cumulative}
		for _, p := range m.GetSum().GetDataPoints() {
			if p.GetAsInt() >= 0 {
				sum.DataPoints = append(sum.DataPoints, &metricspb.NumberDataPoint{
					Attributes: r.attributes(p.GetAttributes(), relayedKeys), StartTimeUnixNano: p.GetStartTimeUnixNano(), TimeUnixNano: p.GetTimeUnixNano(),
					Value: &metricspb.NumberDataPoint_AsInt{AsInt: p.GetAsInt()},
				})
			}
		}
		out.Data = &metricspb.Metric_Sum{Sum: sum}
		return out, len(sum.GetDataPoints())
	}
	histogram := &metricspb.Histogram{AggregationTemporality: cumulative}
	for _, p := range m.GetHistogram().GetDataPoints() {
		var count uint64
		for _, n := range p.GetBucketCounts() {
			count += n
		}
		if !slices.Equal(p.GetExplicitBounds(), kind.bounds) || len(p.GetBucketCounts()) != len(kind.bounds)+1 || count != p.GetCount() ||
			math.IsNaN(p.GetSum()) || math.IsInf(p.GetSum(), 0) || p.GetSum() < 0 {
			continue
		}
		histogram.DataPoints = append(histogram.DataPoints, &metricspb.HistogramDataPoint{
			Attributes: r.attributes(p.GetAttributes(), relayedKeys), StartTimeUnixNano: p.GetStartTimeUnixNano(), TimeUnixNano: p.GetTimeUnixNano(),
			Count: count, Sum: new(p.GetSum()), BucketCounts: p.GetBucketCounts(), ExplicitBounds: kind.bounds,
		})
	}
	out.Data = &metricspb.Metric_Histogram{Histogram: histogram}
	return out, len(histogram.GetDataPoints())
}

// attributes returns the attributes with the given keys and plain values,
// without duplicates.
func (r relay) attributes(from []*commonpb.KeyValue, keys []string) (kept []*commonpb.KeyValue) {
	for _, a := range from {
		known := slices.ContainsFunc(kept, func(k *commonpb.KeyValue) bool { return k.GetKey() == a.GetKey() })
		if known || !slices.Contains(keys, a.GetKey()) {
			continue
		}
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_BoolValue:
			kept = append(kept, &commonpb.KeyValue{Key: a.GetKey(), Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.BoolValue}}})
		case *commonpb.AnyValue_StringValue:
			if relayedName.MatchString(v.StringValue) {
				kept = append(kept, text(a.GetKey(), r.Hide(v.StringValue)))
			}
		}
	}
	return kept
}

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: stringValue(value)}
}

func stringValue(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}
