package telemetry

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/types/known/emptypb"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
)

// ignored is a reply that is not parsed: it could only say that the receiver dropped
// some data, which the sender cannot change.
type ignored = emptypb.Empty

// traceClient is the transport of OpenTelemetry's trace exporter.
type traceClient struct {
	send func(context.Context, *tracepb.TracesData) error
}

func (s sender) traces() otlptrace.Client {
	return traceClient{call[tracepb.TracesData](s, tracesPath)}
}

func (traceClient) Start(context.Context) error { return nil }
func (traceClient) Stop(context.Context) error  { return nil }

func (c traceClient) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	return c.send(ctx, &tracepb.TracesData{ResourceSpans: spans})
}

// metricExporter sends counters, gauges and histograms, the only kinds in use.
type metricExporter struct {
	send func(context.Context, *metricspb.MetricsData) error
	// counted is the sum of the counters and histograms that was last sent. If the sum has
	// not changed, nothing is sent. If counted is nil, everything is sent each time.
	counted *atomic.Uint64
}

func (s sender) metrics(changes bool) sdkmetric.Exporter {
	e := metricExporter{send: call[metricspb.MetricsData](s, metricsPath)}
	if changes {
		e.counted = new(atomic.Uint64)
	}
	return e
}

func (metricExporter) Temporality(sdkmetric.InstrumentKind) metricdata.Temporality {
	return metricdata.CumulativeTemporality
}

func (metricExporter) Aggregation(kind sdkmetric.InstrumentKind) sdkmetric.Aggregation {
	return sdkmetric.DefaultAggregationSelector(kind)
}

func (metricExporter) ForceFlush(context.Context) error { return nil }
func (metricExporter) Shutdown(context.Context) error   { return nil }

func (e metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	out := &metricspb.ResourceMetrics{Resource: resourceOf(all.Resource)}
	for _, scope := range all.ScopeMetrics {
		of := &metricspb.ScopeMetrics{Scope: &commonpb.InstrumentationScope{Name: scope.Scope.Name}}
		for _, m := range scope.Metrics {
			of.Metrics = append(of.Metrics, metricOf(m))
		}
		out.ScopeMetrics = append(out.ScopeMetrics, of)
	}
	counted := countedBy(out)
	if e.counted != nil && counted == e.counted.Load() {
		return nil
	}
	err := e.send(ctx, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{out}})
	if e.counted != nil && err == nil {
		e.counted.Store(counted)
	}
	return err
}

// countedBy returns the sum of all counts of counters and histograms.
func countedBy(all *metricspb.ResourceMetrics) (n uint64) {
	for _, scope := range all.GetScopeMetrics() {
		for _, m := range scope.GetMetrics() {
			for _, p := range m.GetSum().GetDataPoints() {
				n += uint64(p.GetAsInt())
			}
			for _, p := range m.GetHistogram().GetDataPoints() {
				n += p.GetCount()
			}
		}
	}
	return n
}

func metricOf(m metricdata.Metrics) *metricspb.Metric {
	out := &metricspb.Metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		out.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			DataPoints: pointsOf(data.DataPoints), IsMonotonic: data.IsMonotonic, AggregationTemporality: cumulative,
		}}
	case metricdata.Gauge[int64]:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: pointsOf(data.DataPoints)}}
	case metricdata.Gauge[float64]:
		out.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: pointsOf(data.DataPoints)}}
	case metricdata.Histogram[float64]:
		h := &metricspb.Histogram{AggregationTemporality: cumulative}
		for _, p := range data.DataPoints {
			h.DataPoints = append(h.DataPoints, &metricspb.HistogramDataPoint{
				Attributes: attributesOf(p.Attributes.ToSlice()), StartTimeUnixNano: uint64(p.StartTime.UnixNano()), TimeUnixNano: uint64(p.Time.UnixNano()),
				Count: p.Count, Sum: &p.Sum, BucketCounts: p.BucketCounts, ExplicitBounds: p.Bounds,
			})
		}
		out.Data = &metricspb.Metric_Histogram{Histogram: h}
	}
	return out
}

const cumulative = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE

func pointsOf[N int64 | float64](points []metricdata.DataPoint[N]) []*metricspb.NumberDataPoint {
	var out []*metricspb.NumberDataPoint
	for _, p := range points {
		point := &metricspb.NumberDataPoint{
			Attributes: attributesOf(p.Attributes.ToSlice()), StartTimeUnixNano: uint64(p.StartTime.UnixNano()), TimeUnixNano: uint64(p.Time.UnixNano()),
		}
		switch v := any(p.Value).(type) {
		case int64:
			point.Value = &metricspb.NumberDataPoint_AsInt{AsInt: v}
		case float64:
			point.Value = &metricspb.NumberDataPoint_AsDouble{AsDouble: v}
		}
		out = append(out, point)
	}
	return out
}

// logExporter sends log records.
type logExporter struct {
	send func(context.Context, *logspb.LogsData) error
}

func (s sender) logs() sdklog.Exporter { return logExporter{call[logspb.LogsData](s, logsPath)} }

func (logExporter) Shutdown(context.Context) error   { return nil }
func (logExporter) ForceFlush(context.Context) error { return nil }

func (e logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	if len(records) == 0 {
		return nil
	}
	of := &logspb.ScopeLogs{Scope: &commonpb.InstrumentationScope{Name: "aloft"}}
	for _, r := range records {
		out := &logspb.LogRecord{
			TimeUnixNano: uint64(r.Timestamp().UnixNano()), ObservedTimeUnixNano: uint64(r.ObservedTimestamp().UnixNano()),
			SeverityNumber: logspb.SeverityNumber(r.Severity()), SeverityText: r.SeverityText(), Body: valueOf(r.Body()),
		}
		if traceID, spanID := r.TraceID(), r.SpanID(); traceID.IsValid() && spanID.IsValid() {
			out.TraceId, out.SpanId = traceID[:], spanID[:]
		}
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			out.Attributes = append(out.Attributes, attributesOf([]attribute.KeyValue{kv})...)
			return true
		})
		of.LogRecords = append(of.LogRecords, out)
	}
	return e.send(ctx, &logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{
		{Resource: resourceOf(records[0].Resource()), ScopeLogs: []*logspb.ScopeLogs{of}},
	}})
}

func resourceOf(r *resource.Resource) *resourcepb.Resource {
	return &resourcepb.Resource{Attributes: attributesOf(r.Attributes())}
}

func attributesOf(kvs []attribute.KeyValue) []*commonpb.KeyValue {
	var out []*commonpb.KeyValue
	for _, kv := range kvs {
		out = append(out, &commonpb.KeyValue{Key: string(kv.Key), Value: valueOf(kv.Value)})
	}
	return out
}

func valueOf(v attribute.Value) *commonpb.AnyValue {
	switch v.Type() {
	case attribute.BOOL:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_BoolValue{BoolValue: v.AsBool()}}
	case attribute.INT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: v.AsInt64()}}
	case attribute.FLOAT64:
		return &commonpb.AnyValue{Value: &commonpb.AnyValue_DoubleValue{DoubleValue: v.AsFloat64()}}
	}
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: v.String()}}
}
