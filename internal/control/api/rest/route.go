package rest

import (
	"net/http"

	"go.opentelemetry.io/otel/trace"

	"aloft/internal/account"
	"aloft/internal/telemetry"
)

// A Handler answers one request. If it returns an error before it has written
// anything, the error is sent in the API's format.
type Handler func(w http.ResponseWriter, r *http.Request, who account.APIKey) error

// A Route is one operation of the API.
type Route struct {
	Method, Path string
	ID           string // operationId
	Summary      string
	Open         bool         // requires no key
	Needs        account.Role // minimum role; if empty, see least
	Long         bool         // has no timeout
	Plain        bool         // never compressed
	Query        []Param
	Header       []Param
	In           any    // zero value of the body's type, or nil
	Takes        string // media type of the body if it is not JSON
	Status       int    // status code on success
	Out          any    // zero value of the reply's type, or nil if the reply is not JSON
	Media        string
	Handle       Handler
}

// A Param is a query parameter or a header.
type Param struct {
	Name, Kind, Words string // kind is integer, boolean or string
	Min, Max          int    // bounds of an integer
	Standard          any    // default
}

// Least returns the minimum role for the route. If the table does not specify
// one, viewers may use routes that only read.
func (rt Route) Least() account.Role {
	switch {
	case rt.Needs != "":
		return rt.Needs
	case rt.Method == http.MethodGet:
		return account.Viewer
	}
	return account.Member
}

// PageParams are the query parameters of a list with pages.
var PageParams = []Param{
	{Name: "limit", Kind: "integer", Min: 1, Max: MaxLimit, Standard: StandardLimit, Words: "page size"},
	{Name: "cursor", Kind: "string", Words: "nextCursor of the previous page"},
}

// TraceParam describes the header with the trace context of a request.
var TraceParam = Param{Name: telemetry.Header, Kind: "string", Words: "W3C trace context, which the run's trace continues"}

// TraceOf returns the trace context for a new run: that of the request's span,
// or the client's own if the server does not trace. It may be "".
func TraceOf(r *http.Request) string {
	return telemetry.Format(trace.SpanContextFromContext(r.Context()))
}
