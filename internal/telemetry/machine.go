package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// metricKind is a metric of exec-daemon: a histogram if it has bounds, else a
// counter.
type metricKind struct {
	name, words, unit string
	bounds            []float64
}

// machineMetrics are all metrics of exec-daemon. A server forwards no other metrics.
var machineMetrics = []metricKind{
	{name: "exec_daemon_tool_calls", words: "Completed tool calls, by tool and outcome."},
	{name: "exec_daemon_tool_call_seconds", words: "Duration of tool calls, by tool.", unit: "s",
		bounds: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30, 120, 600}},
	{name: "exec_daemon_requests", words: "Answered requests, by RPC and code."},
}

func machineMetric(name string) *metricKind {
	for i := range machineMetrics {
		if machineMetrics[i].name == name {
			return &machineMetrics[i]
		}
	}
	return nil
}

// MachineMeter records exec-daemon's metrics. A nil MachineMeter records
// nothing. Its methods are safe for concurrent use.
type MachineMeter struct {
	provider        *sdkmetric.MeterProvider
	calls, requests metric.Int64Counter
	seconds         metric.Float64Histogram
}

// NewMachineMeter returns a meter that sends through t; nil for a nil
// Telemetry.
func (t *Telemetry) NewMachineMeter() (*MachineMeter, error) {
	if t == nil {
		return nil, nil //nolint:nilnil // a nil meter records nothing
	}
	m := &MachineMeter{provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(t.metrics), sdkmetric.WithResource(t.of))}
	meter := m.provider.Meter("aloft")
	calls, seconds, requests := machineMetrics[0], machineMetrics[1], machineMetrics[2]
	var errs [3]error
	m.calls, errs[0] = meter.Int64Counter(calls.name, metric.WithDescription(calls.words))
	m.seconds, errs[1] = meter.Float64Histogram(seconds.name, metric.WithDescription(seconds.words), metric.WithUnit(seconds.unit),
		metric.WithExplicitBucketBoundaries(seconds.bounds...))
	m.requests, errs[2] = meter.Int64Counter(requests.name, metric.WithDescription(requests.words))
	return m, errors.Join(errs[:]...)
}

// Call records a completed tool call.
func (m *MachineMeter) Call(ctx context.Context, tool string, failed bool, took time.Duration) {
	if m == nil {
		return
	}
	outcome := "ok"
	if failed {
		outcome = "error"
	}
	m.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("tool", tool), attribute.String("outcome", outcome)))
	m.seconds.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("tool", tool)))
}

// Request records an answered request. rpc is a name from Aloft's own API.
func (m *MachineMeter) Request(ctx context.Context, rpc, code string) {
	if m != nil {
		m.requests.Add(ctx, 1, metric.WithAttributes(attribute.String("rpc", rpc), attribute.String("code", code)))
	}
}

// Shutdown sends the last metrics and stops.
func (m *MachineMeter) Shutdown(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.provider.Shutdown(ctx)
}
