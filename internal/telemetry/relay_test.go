package telemetry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func hidden(s string) string { return strings.ReplaceAll(s, "hunter2", "[REDACTED]") }

func spansIn(spans ...*tracepb.Span) *tracepb.TracesData {
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}}
}

// relayOf returns a relay for a machine whose run has the given trace.
func relayOf(of trace.TraceID) relay {
	return relay{From: From{Hide: hidden, Trace: func(context.Context) (trace.TraceID, error) { return of, nil }}}
}

func relayedSpans(t testing.TB, data *tracepb.TracesData, of trace.TraceID) []*tracepb.Span {
	t.Helper()
	out, err := relayOf(of).spans(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	if out == nil {
		return nil
	}
	return out.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()
}

func TestRelayKeepsWhatIsExecDaemonsOwn(t *testing.T) {
	run := Run("run-1", "")
	traceID, spanID := run.TraceID(), run.SpanID()
	good := func(change func(*tracepb.Span)) *tracepb.Span {
		s := &tracepb.Span{
			TraceId: traceID[:], SpanId: spanID[:], ParentSpanId: spanID[:], Name: "exec Shell", StartTimeUnixNano: 1, EndTimeUnixNano: 2,
			Attributes: []*commonpb.KeyValue{text("call", "hunter2"), text("call", "twice"), text("prompt", "private"), text("tool", "a\nb")},
			Events:     []*tracepb.Span_Event{{Name: "private"}}, Status: &tracepb.Status{Message: "private"}, TraceState: "private",
		}
		change(s)
		return s
	}
	got := relayedSpans(t, spansIn(good(func(*tracepb.Span) {})), traceID)
	if len(got) != 1 || strings.Contains(got[0].String(), "private") || strings.Contains(got[0].String(), "hunter2") || len(got[0].GetAttributes()) != 1 {
		t.Errorf("sent on: %v", got)
	}
	for name, change := range map[string]func(*tracepb.Span){
		"another's trace": func(s *tracepb.Span) { s.TraceId = make([]byte, 16) },
		"no id":           func(s *tracepb.Span) { s.SpanId = nil },
		"half a parent":   func(s *tracepb.Span) { s.ParentSpanId = spanID[:3] },
		"words":           func(s *tracepb.Span) { s.Name = "exec\nShell" },
		"a long name":     func(s *tracepb.Span) { s.Name = strings.Repeat("a", 129) },
		"an early end":    func(s *tracepb.Span) { s.EndTimeUnixNano = 0 },
	} {
		if got := relayedSpans(t, spansIn(good(change)), traceID); len(got) != 0 {
			t.Errorf("with %s: %v", name, got)
		}
	}
	many := make([]*tracepb.Span, maxRelayedSpans+1)
	for i := range many {
		many[i] = good(func(*tracepb.Span) {})
	}
	if got := relayedSpans(t, spansIn(many...), traceID); len(got) != maxRelayedSpans {
		t.Errorf("%d spans of one request", len(got))
	}
}

func logsIn(records ...*logspb.LogRecord) *logspb.LogsData {
	return &logspb.LogsData{ResourceLogs: []*logspb.ResourceLogs{{
		Resource:  &resourcepb.Resource{Attributes: []*commonpb.KeyValue{text("agent", "forged")}},
		ScopeLogs: []*logspb.ScopeLogs{{LogRecords: records}},
	}}}
}

func TestRelayKeepsPlainLogs(t *testing.T) {
	run := Run("run-1", "")
	traceID, spanID := run.TraceID(), run.SpanID()
	record := func(of trace.TraceID, body string) *logspb.LogRecord {
		return &logspb.LogRecord{
			TraceId: of[:], SpanId: spanID[:], Body: stringValue(body), SeverityNumber: 9, SeverityText: "private",
			Attributes: []*commonpb.KeyValue{text("call", "c1"), text("error", "private"), text("addr", "private")},
		}
	}
	out, err := relayOf(traceID).logs(t.Context(), logsIn(
		record(traceID, "call not recorded (hunter2)"), record(trace.TraceID{1}, "of another trace"), record(traceID, "two\nlines"), record(traceID, strings.Repeat("a", 201)),
		&logspb.LogRecord{Body: stringValue("a level of its own"), SeverityNumber: 99},
	))
	if err != nil || len(out.GetResourceLogs()) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	got := out.GetResourceLogs()[0].GetScopeLogs()[0].GetLogRecords()
	if len(got) != 2 || got[0].GetBody().GetStringValue() != "call not recorded ([REDACTED])" || len(got[0].GetAttributes()) != 1 ||
		string(got[0].GetTraceId()) != string(traceID[:]) || got[1].GetTraceId() != nil {
		t.Errorf("sent on: %v", got)
	}
	if strings.Contains(out.String(), "private") || strings.Contains(out.String(), "forged") {
		t.Errorf("sent on: %v", out)
	}
	if out, err := relayOf(traceID).logs(t.Context(), logsIn(record(traceID, "\x1b[31m"))); out != nil || err != nil {
		t.Errorf("sent on: %v, %v", out, err)
	}
}

// The relay accepts only the metrics that exec-daemon defines.
func TestRelayKeepsKnownMetrics(t *testing.T) {
	r := metricsOfACall(t)
	out, err := relayOf(trace.TraceID{1}).metrics(t.Context(), r)
	if err != nil || len(out.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics()) != len(machineMetrics) {
		t.Fatalf("%v, %v", out, err)
	}
	for _, m := range r.GetResourceMetrics()[0].GetScopeMetrics()[0].GetMetrics() {
		if h := m.GetHistogram(); h != nil {
			h.DataPoints[0].Count++ // a count that differs from the buckets' sum
		} else {
			m.Name = "aloft_runs_ended"
		}
	}
	if out, err := relayOf(trace.TraceID{1}).metrics(t.Context(), r); out != nil || err != nil {
		t.Errorf("sent on: %v, %v", out, err)
	}
}

// metricsOfACall returns the metrics that exec-daemon sends after a call.
func metricsOfACall(t *testing.T) *metricspb.MetricsData {
	t.Helper()
	var kept *metricspb.MetricsData
	keep := metricExporter{counted: new(atomic.Uint64), send: func(_ context.Context, m *metricspb.MetricsData) error {
		if kept != nil {
			t.Error("sent again without a change")
		}
		kept = m
		return nil
	}}
	sent := &Telemetry{metrics: sdkmetric.NewPeriodicReader(keep, sdkmetric.WithInterval(time.Hour)), of: resource.Empty()}
	meter, err := sent.NewMachineMeter()
	if err != nil {
		t.Fatal(err)
	}
	meter.Call(t.Context(), "Shell", true, 20*time.Millisecond)
	meter.Request(t.Context(), "agent.v1.ExecService/ExecStream", "ok")
	if err := meter.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := meter.Shutdown(t.Context()); err != nil { // the client would send it again
		t.Fatal(err)
	}
	return kept
}

func TestGhostModeHasNoRelay(t *testing.T) {
	var off *Telemetry
	if off.Relay(From{}) != nil {
		t.Error("there is one")
	}
}

func FuzzRelayed(f *testing.F) {
	f.Add([]byte("\x0a\x04\x12\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var in tracepb.TracesData
		if proto.Unmarshal(data, &in) != nil {
			return
		}
		of := trace.TraceID{}
		for _, r := range in.GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					copy(of[:], span.GetTraceId())
				}
			}
		}
		for _, s := range relayedSpans(t, &in, of) {
			if string(s.GetTraceId()) != string(of[:]) || len(s.GetEvents()) > 0 || len(s.GetAttributes()) > len(relayedKeys) {
				t.Errorf("sent on: %v", s)
			}
		}
	})
}

func FuzzRelayedLogsAndMetrics(f *testing.F) {
	f.Add([]byte("\x0a\x04\x12\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var logs logspb.LogsData
		if proto.Unmarshal(data, &logs) == nil {
			if out, err := relayOf(trace.TraceID{1}).logs(t.Context(), &logs); err != nil || proto.Size(out) > 2*len(data)+1024 {
				t.Errorf("sent on: %v, %v", out, err)
			}
		}
		var metrics metricspb.MetricsData
		if proto.Unmarshal(data, &metrics) == nil {
			out, err := relayOf(trace.TraceID{1}).metrics(t.Context(), &metrics)
			if err != nil {
				t.Error(err)
			}
			for _, m := range out.GetResourceMetrics()[:min(1, len(out.GetResourceMetrics()))] {
				for _, m := range m.GetScopeMetrics()[0].GetMetrics() {
					if machineMetric(m.GetName()) == nil {
						t.Errorf("sent on: %v", m)
					}
				}
			}
		}
	})
}

// TestRelayReadsOneMessageAtATime sends two messages at the same time, of which
// the first never ends, and then many more. The relay must not read the
// messages that it refuses.
func TestRelayReadsOneMessageAtATime(t *testing.T) {
	routes := http.NewServeMux()
	take(routes, sender{}, tracesPath, func(context.Context, *tracepb.TracesData) (*tracepb.TracesData, error) {
		return nil, nil
	})
	server := httptest.NewUnstartedServer(routes)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport.(*http.Transport).Protocols = server.Config.Protocols
	post := func(body io.Reader) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+tracesPath, body)
		if err != nil {
			t.Error(err)
			return ""
		}
		req.Header.Set("Content-Type", "application/grpc+proto")
		req.Header.Set("Te", "trailers")
		res, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.ReadAll(res.Body); err != nil {
			t.Error(err)
		}
		return res.Header.Get("Grpc-Status") + res.Trailer.Get("Grpc-Status")
	}
	const accepted, refused = "0", "8"
	empty := func() io.Reader { return bytes.NewReader(make([]byte, 5)) }
	if got := post(empty()); got != accepted {
		t.Fatalf("a message alone: %q", got)
	}
	body, rest := io.Pipe()
	first := make(chan string, 1)
	go func() { first <- post(body) }()
	if _, err := rest.Write([]byte{0, 0, 0, 0, 1}); err != nil {
		t.Fatal(err)
	}
	for got := ""; got != refused; { // until the server reads the first message
		if got = post(empty()); got != accepted && got != refused {
			t.Fatalf("a message beside another: %q", got)
		}
	}
	endless, never := io.Pipe()
	t.Cleanup(func() { _ = never.Close() })
	if got := post(endless); got != refused {
		t.Errorf("an endless message: %q", got)
	}
	if err := rest.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-first; got == refused || got == accepted {
		t.Errorf("the first message: %q", got)
	}
}
