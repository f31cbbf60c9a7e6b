// Package telemetry sends traces, metrics and logs to an OpenTelemetry receiver, as OTLP
// over gRPC. In ghost mode, the default, it does nothing: no exporter, no connection, no
// goroutine.
//
// Telemetry consists of ids, times, counts and outcomes. It never contains prompts, file
// contents, commands or output: spans are made from the caller's own values, and only
// the constant message and known attributes of a log record are sent.
//
// The package uses Connect as its gRPC client, because the programs contain Connect
// anyway; OpenTelemetry's own exporters would add 5 MB to each.
package telemetry

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Config says where to send telemetry.
type Config struct {
	Ghost    bool   // send nothing, regardless of the other fields
	Endpoint string // https://host:port of an OTLP receiver; if "", nothing is sent
	Token    string // bearer token; optional
	Insecure bool   // connect without TLS
	Service  string // the service's name: aloft, exec-daemon
	Soon     bool   // send spans within half a second, and metrics when they change, because the receiving control plane may disconnect soon
	Version  string
	Logger   *slog.Logger // logs send failures, at debug level
}

// sendTimeout is the timeout of one request to the receiver.
const sendTimeout = 10 * time.Second

// soon is the longest time that spans are batched with [Config.Soon].
const soon = 500 * time.Millisecond

// Intervals for sending metrics: the normal interval, and the one for [Config.Soon],
// which sends only changes.
const (
	metricsEvery = 30 * time.Second
	metricsSoon  = 5 * time.Second
)

// Telemetry sends telemetry. A nil Telemetry is ghost mode: it discards
// everything. Its methods are safe for concurrent use.
type Telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics sdkmetric.Reader
	logs    *sdklog.LoggerProvider
	of      *resource.Resource
	client  *http.Client
	send    sender
}

// Open returns a Telemetry, or nil if nothing should be sent. It does not connect. An
// unreachable receiver does not block the caller; its data is lost.
func Open(c Config) (*Telemetry, error) {
	if c.Ghost || c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Telemetry sends nothing
	}
	base, err := baseURL(c)
	if err != nil {
		return nil, err
	}
	if c.Logger != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { c.Logger.Debug("cannot send telemetry", "error", err) }))
	}
	of := resource.NewSchemaless(attribute.String("service.name", c.Service), attribute.String("service.version", c.Version))
	t := &Telemetry{of: of, client: httpClient(c.Insecure)}
	send := sender{client: t.client, base: base, token: c.Token}
	t.send = send
	exporter, err := otlptrace.New(context.Background(), send.traces())
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	batch := []sdktrace.BatchSpanProcessorOption{sdktrace.WithExportTimeout(sendTimeout)}
	every := metricsEvery
	if c.Soon {
		batch, every = append(batch, sdktrace.WithBatchTimeout(soon)), metricsSoon
	}
	t.traces = sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter, batch...),
		sdktrace.WithResource(of), sdktrace.WithIDGenerator(ids{}), sdktrace.WithSampler(sdktrace.AlwaysSample()))
	t.metrics = sdkmetric.NewPeriodicReader(send.metrics(c.Soon), sdkmetric.WithInterval(every), sdkmetric.WithTimeout(sendTimeout))
	t.logs = sdklog.NewLoggerProvider(sdklog.WithResource(of), sdklog.WithAttributeValueLengthLimit(maxAttribute),
		sdklog.WithProcessor(sdklog.NewBatchProcessor(send.logs(), sdklog.WithExportTimeout(sendTimeout))))
	return t, nil
}

// baseURL validates the endpoint. The scheme is optional.
func baseURL(c Config) (string, error) {
	endpoint := c.Endpoint
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", errors.New("the trace endpoint must be a URL such as https://host:4317")
	}
	switch {
	case c.Insecure:
		u.Scheme = "http"
	case u.Scheme == "http":
		return "", errors.New("the trace endpoint has no TLS: use https, or set the insecure option")
	}
	return u.Scheme + "://" + u.Host, nil
}

func httpClient(insecure bool) *http.Client {
	var protocols http.Protocols
	if insecure {
		protocols.SetUnencryptedHTTP2(true)
	} else {
		protocols.SetHTTP2(true)
	}
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, Protocols: &protocols, IdleConnTimeout: 90 * time.Second,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}, Timeout: sendTimeout}
}

// Tracer returns the tracer for new spans.
func (t *Telemetry) Tracer() trace.Tracer {
	if t == nil {
		return noop.NewTracerProvider().Tracer("aloft")
	}
	return t.traces.Tracer("aloft")
}

// Metrics returns the reader that sends metrics, for the program's meter
// provider; nil if none are sent.
func (t *Telemetry) Metrics() sdkmetric.Reader {
	if t == nil {
		return nil
	}
	return t.metrics
}

// Shutdown sends the pending data and stops. The meter provider shuts down metrics.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	err := errors.Join(t.traces.Shutdown(ctx), t.logs.Shutdown(ctx))
	t.client.CloseIdleConnections()
	return err
}

// sender makes requests to the receiver.
type sender struct {
	client *http.Client
	base   string
	token  string
}

// OTLP services.
const (
	tracesPath  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	metricsPath = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
	logsPath    = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
)

// call returns a function that sends one message to the service. The
// collector's own message types have the same encoding as those used here, but
// would add grpc-go as a dependency.
func call[T any](s sender, path string) func(context.Context, *T) error {
	client := connect.NewClient[T, ignored](s.client, s.base+path, connect.WithGRPC())
	return func(ctx context.Context, message *T) error {
		req := connect.NewRequest(message)
		if s.token != "" {
			req.Header().Set("Authorization", "Bearer "+s.token)
		}
		_, err := client.CallUnary(ctx, req)
		return err
	}
}
