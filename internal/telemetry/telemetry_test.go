package telemetry_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"

	"aloft/internal/telemetry"
	"aloft/internal/telemetry/telemetrytest"
)

func open(t *testing.T, c telemetry.Config) *telemetry.Telemetry {
	t.Helper()
	sent, err := telemetry.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func shutdown(t *testing.T, sent *telemetry.Telemetry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := sent.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func TestSend(t *testing.T) {
	r := telemetrytest.Start(t, "t0ken")
	sent := open(t, telemetry.Config{Endpoint: r.URL, Token: "t0ken", Insecure: true, Service: "test", Version: "1"})

	run := telemetry.Run("run-1", "")
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), run)
	_, span := sent.Tracer().Start(telemetry.WithID(ctx, telemetry.Span(run, "call c1")), "tool Shell",
		trace.WithAttributes(attribute.String("tool", "Shell"), attribute.Bool("error", true), attribute.Int("n", 3)))
	span.SetStatus(codes.Error, "")
	span.End()

	var local strings.Builder
	log := slog.New(sent.Handler(slog.NewTextHandler(&local, &slog.HandlerOptions{Level: slog.LevelWarn})))
	log.With("agent", "bc-1", "prompt", "the prompt").WithGroup("g").Info("in a group", "tool", "the group")
	log.Info("not local", "run", "run-1", "error", errors.New("the error"))
	log.Warn("both", "took", 3*time.Second)
	log.Debug("neither")

	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sent.Metrics()))
	calls, err := provider.Meter("test").Int64Counter("calls")
	if err != nil {
		t.Fatal(err)
	}
	times, err := provider.Meter("test").Float64Histogram("times", metric.WithExplicitBucketBoundaries(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	calls.Add(t.Context(), 2, metric.WithAttributes(attribute.String("tool", "Shell")))
	times.Record(t.Context(), 1.5)
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	shutdown(t, sent)

	got := r.Spans()["tool Shell"]
	traceID, spanID, parent := run.TraceID(), telemetry.Span(run, "call c1").SpanID(), run.SpanID()
	if string(got.GetTraceId()) != string(traceID[:]) || string(got.GetSpanId()) != string(spanID[:]) || string(got.GetParentSpanId()) != string(parent[:]) {
		t.Errorf("the span is %v", got)
	}
	if logs := r.Logs(); len(logs) != 3 || logs[1].GetBody().GetStringValue() != "not local" || logs[2].GetSeverityText() != "WARN" {
		t.Errorf("logs: %v", logs)
	}
	if strings.Contains(local.String(), "not local") || !strings.Contains(local.String(), "both") {
		t.Errorf("local log: %s", local.String())
	}
	if n := r.Metric("calls").GetSum().GetDataPoints(); len(n) != 1 || n[0].GetAsInt() != 2 {
		t.Errorf("calls: %v", n)
	}
	if h := r.Metric("times").GetHistogram().GetDataPoints(); len(h) != 1 || h[0].GetCount() != 1 || len(h[0].GetBucketCounts()) != 3 {
		t.Errorf("times: %v", h)
	}
	for _, want := range []string{"bc-1", "run-1", "3s", "service.name"} {
		if !strings.Contains(r.Text(), want) {
			t.Errorf("%q was not sent", want)
		}
	}
	for _, not := range []string{"the prompt", "the group", "the error", "t0ken", "neither"} {
		if strings.Contains(r.Text(), not) {
			t.Errorf("%q was sent", not)
		}
	}
}

func TestGhostMakesNothing(t *testing.T) {
	r := telemetrytest.Start(t, "")
	for _, c := range []telemetry.Config{{Ghost: true, Endpoint: r.URL, Insecure: true}, {}, {Ghost: true, Endpoint: ":::"}} {
		sent := open(t, c)
		if sent != nil || sent.Metrics() != nil {
			t.Error("something was made")
		}
		_, span := sent.Tracer().Start(t.Context(), "x")
		if span.IsRecording() {
			t.Error("a span is kept")
		}
		next := slog.DiscardHandler
		if sent.Handler(next) != next {
			t.Error("logs are kept")
		}
		shutdown(t, sent)
	}
	if n := r.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, fine := range map[string]bool{
		"https://h:4317": true, "https://h": true, "h:4317": true, "http://h": false, "ftp://h": false,
		"https://u:p@h": false, "https://h?x=1": false, "https://": false, " ": false,
	} {
		sent, err := telemetry.Open(telemetry.Config{Endpoint: endpoint})
		if (err == nil) != fine {
			t.Errorf("%q: %v", endpoint, err)
		}
		if sent != nil {
			shutdown(t, sent)
		}
	}
}

// A receiver that is unreachable or refuses data delays nothing and ends
// nothing.
func TestReceiverThatRefuses(t *testing.T) {
	r := telemetrytest.Start(t, "another")
	var said strings.Builder
	sent := open(t, telemetry.Config{Endpoint: r.URL, Token: "wrong", Insecure: true,
		Logger: slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	_, span := sent.Tracer().Start(t.Context(), "x")
	span.End()
	_ = sent.Shutdown(t.Context()) // says the same as the log
	if r.Requests() == 0 || len(r.Spans()) != 0 || !strings.Contains(said.String(), "cannot send telemetry") || strings.Contains(said.String(), "level=INFO") {
		t.Errorf("%d requests; %s", r.Requests(), said.String())
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for header, want := range map[string]string{
		good: good, " " + good + " ": good,
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more": good,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": "",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":      "",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":      "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":      "",
		"": "", "x": "",
	} {
		if got := telemetry.Format(telemetry.Parse(header)); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
	mine, again, theirs := telemetry.Run("run-1", ""), telemetry.Run("run-1", "x"), telemetry.Run("run-1", good)
	if !mine.IsValid() || !mine.Equal(again) || theirs.TraceID() != telemetry.Parse(good).TraceID() || theirs.SpanID() == telemetry.Parse(good).SpanID() {
		t.Errorf("%v, %v, %v", mine, again, theirs)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, header string) {
		c := telemetry.Parse(header)
		if again := telemetry.Parse(telemetry.Format(c)); !again.Equal(c) {
			t.Errorf("%q: %v and %v", header, c, again)
		}
	})
}
