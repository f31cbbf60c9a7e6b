// Package telemetrytest provides an OpenTelemetry receiver for tests. It serves
// OTLP's own protobuf services with grpc-go, so that package telemetry is
// tested against independent code.
package telemetrytest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Receiver stores everything it receives. Its methods are safe for concurrent
// use.
type Receiver struct {
	URL string // http://…, without TLS

	mu       sync.Mutex
	token    string
	spans    []*tracepb.Span
	metrics  map[string]*metricspb.Metric // the newest metric of each name
	logs     []*logspb.LogRecord
	all      strings.Builder
	requests int
	changed  chan struct{} // closed when the next request arrives
}

// Start starts a receiver that requires the token; it stops at the end of the
// test.
func Start(t testing.TB, token string) *Receiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Receiver{URL: "http://" + l.Addr().String(), token: token, metrics: map[string]*metricspb.Metric{}, changed: make(chan struct{})}
	server := grpc.NewServer(grpc.UnaryInterceptor(r.take))
	coltrace.RegisterTraceServiceServer(server, traces{r: r})
	colmetrics.RegisterMetricsServiceServer(server, metrics{r: r})
	collogs.RegisterLogsServiceServer(server, logs{r: r})
	go func() { _ = server.Serve(l) }() // Serve returns after Stop
	t.Cleanup(server.Stop)
	return r
}

// take checks the token and stores the request's text.
func (r *Receiver) take(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	defer func() {
		close(r.changed)
		r.changed = make(chan struct{})
	}()
	if got := md.Get("authorization"); r.token != "" && (len(got) != 1 || got[0] != "Bearer "+r.token) {
		return nil, status.Error(codes.Unauthenticated, "the token is wrong")
	}
	if m, ok := req.(proto.Message); ok {
		r.all.WriteString(prototext.Format(m))
	}
	return next(ctx, req)
}

type traces struct {
	coltrace.UnimplementedTraceServiceServer
	r *Receiver
}

func (s traces) Export(_ context.Context, req *coltrace.ExportTraceServiceRequest) (*coltrace.ExportTraceServiceResponse, error) {
	for _, of := range req.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			s.r.spans = append(s.r.spans, scope.GetSpans()...)
		}
	}
	return &coltrace.ExportTraceServiceResponse{PartialSuccess: &coltrace.ExportTracePartialSuccess{ErrorMessage: "a warning"}}, nil
}

type metrics struct {
	colmetrics.UnimplementedMetricsServiceServer
	r *Receiver
}

func (s metrics) Export(_ context.Context, req *colmetrics.ExportMetricsServiceRequest) (*colmetrics.ExportMetricsServiceResponse, error) {
	for _, of := range req.GetResourceMetrics() {
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				s.r.metrics[m.GetName()] = m
			}
		}
	}
	return &colmetrics.ExportMetricsServiceResponse{}, nil
}

type logs struct {
	collogs.UnimplementedLogsServiceServer
	r *Receiver
}

func (s logs) Export(_ context.Context, req *collogs.ExportLogsServiceRequest) (*collogs.ExportLogsServiceResponse, error) {
	for _, of := range req.GetResourceLogs() {
		for _, scope := range of.GetScopeLogs() {
			s.r.logs = append(s.r.logs, scope.GetLogRecords()...)
		}
	}
	return &collogs.ExportLogsServiceResponse{}, nil
}

// Spans returns the spans so far by name. Of several spans with the same name, it
// returns the last.
func (r *Receiver) Spans() map[string]*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	byName := map[string]*tracepb.Span{}
	for _, s := range r.spans {
		byName[s.GetName()] = s
	}
	return byName
}

// AllSpans returns the spans received so far, in order of arrival.
func (r *Receiver) AllSpans() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*tracepb.Span(nil), r.spans...)
}

// Metric returns the newest metric with the given name, or nil.
func (r *Receiver) Metric(name string) *metricspb.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[name]
}

// Logs returns the log records received so far.
func (r *Receiver) Logs() []*logspb.LogRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*logspb.LogRecord(nil), r.logs...)
}

// Text returns all received data as text, so that a test can search it for data that
// must not be sent.
func (r *Receiver) Text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.String()
}

// Requests returns the number of requests, including refused ones.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Await waits until enough returns true.
func (r *Receiver) Await(t testing.TB, what string, enough func() bool) {
	t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if enough() {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("not received: %s; only\n%s", what, r.Text())
		}
	}
}
