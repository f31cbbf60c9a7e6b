// Package telemetry sends traces, metrics and logs to an OpenTelemetry
// receiver, by OTLP over gRPC. In ghost mode, which is the default of everything
// that uses it, none of it exists: no exporter, no connection, no goroutine.
//
// What is sent names things by their ids and tells times, counts and outcomes.
// No prompt, file content, command or output is ever given to it: spans are made
// from values of the caller's own, and of a log record only its message, which
// is constant, and attributes of known names are sent.
//
// gRPC is spoken by Connect, which the programs hold anyway; OpenTelemetry's
// own exporters would add 5 MB to each.
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

// Config says where telemetry goes.
type Config struct {
	Ghost    bool   // send nothing, whatever else is said
	Endpoint string // https://host:port of an OTLP receiver; "" sends nothing
	Token    string // sent as a bearer token, unless empty
	Insecure bool   // speak without TLS
	Service  string // aloft, exec-daemon
	Soon     bool   // send spans within half a second, and metrics when there are new ones: whoever takes them on is about to leave
	Version  string
	Logger   *slog.Logger // hears, at debug level, that something could not be sent
}

// sendTimeout bounds one request to the receiver.
const sendTimeout = 10 * time.Second

// soon is how long spans wait for others at most, with [Config.Soon].
const soon = 500 * time.Millisecond

// How often metrics are sent, and how often with [Config.Soon], then only what
// is new.
const (
	metricsEvery = 30 * time.Second
	metricsSoon  = 5 * time.Second
)

// Telemetry sends. A nil Telemetry is ghost mode: everything it is given goes
// nowhere. Its methods are safe for concurrent use.
type Telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics sdkmetric.Reader
	logs    *sdklog.LoggerProvider
	of      *resource.Resource
	client  *http.Client
	send    sender
}

// Open makes what sends; nil where nothing is to be sent. It does not connect:
// a receiver that is away holds nobody up, and what it misses is lost.
func Open(c Config) (*Telemetry, error) {
	if c.Ghost || c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil Telemetry is the one that sends nothing
	}
	base, err := baseURL(c)
	if err != nil {
		return nil, err
	}
	if c.Logger != nil {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { c.Logger.Debug("telemetry was not sent", "error", err) }))
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

// baseURL checks the endpoint. Its scheme may be left out.
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
		return "", errors.New("the trace endpoint is without TLS: say that it may be (insecure), or use https")
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

// Tracer returns what makes spans.
func (t *Telemetry) Tracer() trace.Tracer {
	if t == nil {
		return noop.NewTracerProvider().Tracer("aloft")
	}
	return t.traces.Tracer("aloft")
}

// Metrics returns the reader through which metrics are sent, for the one meter
// provider of the program; nil where none are.
func (t *Telemetry) Metrics() sdkmetric.Reader {
	if t == nil {
		return nil
	}
	return t.metrics
}

// Shutdown sends what waits, and stops. Metrics end with their provider.
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

// Services of OTLP, by what they take.
const (
	tracesPath  = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	metricsPath = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
	logsPath    = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
)

// call returns a function that sends one message of the service. The messages
// of the collector's services have the same bytes as those that are sent here,
// and their code would bring grpc-go along.
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
