package telemetry

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func hidden(s string) string { return strings.ReplaceAll(s, "hunter2", "[REDACTED]") }

func spansIn(spans ...*tracepb.Span) *tracepb.TracesData {
	return &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{ScopeSpans: []*tracepb.ScopeSpans{{Spans: spans}}}}}
}

func TestRelayKeepsWhatIsExecDaemonsOwn(t *testing.T) {
	run := Run("run-1", "")
	traceID, spanID := run.TraceID(), run.SpanID()
	good := func(change func(*tracepb.Span)) *tracepb.Span {
		s := &tracepb.Span{
			TraceId: traceID[:], SpanId: spanID[:], ParentSpanId: spanID[:], Name: "exec Shell", StartTimeUnixNano: 1, EndTimeUnixNano: 2,
			Attributes: []*commonpb.KeyValue{text("call", "hunter2"), text("prompt", "private"), text("tool", "a\nb")},
			Events:     []*tracepb.Span_Event{{Name: "private"}}, Status: &tracepb.Status{Message: "private"}, TraceState: "private",
		}
		change(s)
		return s
	}
	got := relayed(spansIn(good(func(*tracepb.Span) {})), traceID, hidden)
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
		if got := relayed(spansIn(good(change)), traceID, hidden); len(got) != 0 {
			t.Errorf("with %s: %v", name, got)
		}
	}
	many := make([]*tracepb.Span, maxRelayedSpans+1)
	for i := range many {
		many[i] = good(func(*tracepb.Span) {})
	}
	if got := relayed(spansIn(many...), traceID, hidden); len(got) != maxRelayedSpans {
		t.Errorf("%d spans of one request", len(got))
	}
}

func TestGhostModeHasNoRelay(t *testing.T) {
	var off *Telemetry
	if off.Relay(nil, nil) != nil {
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
		for _, s := range relayed(&in, of, hidden) {
			if string(s.GetTraceId()) != string(of[:]) || len(s.GetEvents()) > 0 || len(s.GetAttributes()) > len(relayedKeys) {
				t.Errorf("sent on: %v", s)
			}
		}
	})
}
