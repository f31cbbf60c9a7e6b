package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"aloft/internal/control/api/rest"
	v0 "aloft/internal/control/api/v0"
	"aloft/internal/fault"
)

var statusOfCode = map[string]int{
	rest.CodeMethod:  http.StatusMethodNotAllowed,
	rest.CodeTooLong: http.StatusRequestEntityTooLarge,
	rest.CodeCoding:  http.StatusUnsupportedMediaType,
	rest.CodeStream:  http.StatusInternalServerError, // the status in the public API
}

var statusOfKind = map[fault.Kind]int{
	fault.KindInternal:        http.StatusInternalServerError,
	fault.KindInvalid:         http.StatusBadRequest,
	fault.KindUnauthenticated: http.StatusUnauthorized,
	fault.KindDenied:          http.StatusForbidden,
	fault.KindNotFound:        http.StatusNotFound,
	fault.KindConflict:        http.StatusConflict,
	fault.KindExhausted:       http.StatusTooManyRequests,
	fault.KindUnavailable:     http.StatusServiceUnavailable,
	fault.KindGone:            http.StatusGone,
	fault.KindNotImplemented:  http.StatusNotImplemented,
}

// errPanicked is the error that clients see after a panic, without details.
var errPanicked = &fault.Error{Kind: fault.KindInternal, Code: "internal", Message: "internal error"}

// errorJSON is the body of every error reply.
type errorJSON struct {
	_     struct{}            `json:"-" additionalProperties:"true"`
	Error rest.ErrorInnerJSON `json:"error"`
}

// fail writes an error reply. Internal errors are logged with their cause.
func (s *server) fail(w *reply, r *http.Request, log *slog.Logger, err error) {
	f := rest.FaultOf(err)
	switch {
	case errors.Is(err, rest.ErrGone), errors.Is(r.Context().Err(), context.Canceled):
		return // the client has disconnected; nobody to reply to
	case f.Kind == fault.KindInternal || f.Kind == fault.KindUnavailable:
		log.Error("request failed", "err", err)
	}
	if w.status == 0 {
		s.writeFault(w, f, isLegacy(r))
	}
}

// writeFault writes an error, in the shape of /v0 if legacy is true.
func (s *server) writeFault(w http.ResponseWriter, f *fault.Error, legacy bool) {
	status, ok := statusOfCode[f.Code]
	if !ok {
		status = statusOfKind[f.Kind]
	}
	h := w.Header()
	switch status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="aloft"`)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "2")
	case http.StatusRequestEntityTooLarge:
		h.Set("Connection", "close") // the rest of the body was not read
	}
	msg, field := f.Message, f.Field
	if legacy {
		field = v0.Field(field)
		msg = strings.ReplaceAll(msg, f.Field+": ", field+": ")
	}
	if field != "" && !strings.Contains(msg, field) {
		msg = field + ": " + msg
	}
	if f.Advice != "" {
		msg += " (" + f.Advice + ")"
	}
	if legacy {
		_ = rest.WriteJSON(w, status, v0.Error{Error: codeOf(f), Message: msg})
		return
	}
	_ = rest.WriteJSON(w, status, errorJSON{Error: rest.ErrorInnerJSON{Code: codeOf(f), Message: msg, HelpURL: s.helpURL(codeOf(f))}})
}
