package api

import (
	"net/http"

	"aloft/internal/account"
	"aloft/internal/fault"
	"aloft/internal/telemetry"
)

// metrics answers Prometheus. What it counts is everybody's, so only the admin
// may read it.
func (s *server) metrics(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	if who.UserID != account.AdminID {
		return fault.Denied("the server's metrics are for its admin").Hint("use the key in admin.key of the server's data folder")
	}
	if s.Metrics == nil {
		return fault.NotImplemented("this server has no metrics")
	}
	text, err := s.Metrics(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err = w.Write(text)
	return err
}

var traceParam = param{name: telemetry.Header, kind: "string", words: "W3C trace context: the run's trace goes on from there"}

// traceOf returns the place in a trace that the request comes from, or "".
func traceOf(r *http.Request) string {
	return telemetry.Format(telemetry.Parse(r.Header.Get(telemetry.Header)))
}
