package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"aloft/internal/control/api/v0"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Error codes whose HTTP status differs from that of their kind.
const (
	codeMethod  = "method_not_allowed"
	codeTooLong = "payload_too_large"
	codeCoding  = "unsupported_media_type"
	codeStream  = "stream_unavailable"
)

var statusOfCode = map[string]int{
	codeMethod:  http.StatusMethodNotAllowed,
	codeTooLong: http.StatusRequestEntityTooLarge,
	codeCoding:  http.StatusUnsupportedMediaType,
	codeStream:  http.StatusInternalServerError, // as in the public API
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

// errPanicked is what a client sees after a panic, without any detail.
var errPanicked = &fault.Error{Kind: fault.KindInternal, Code: "internal", Message: "internal error"}

// errorJSON is the body of every error reply.
type errorJSON struct {
	_     struct{}       `json:"-" additionalProperties:"true"`
	Error errorInnerJSON `json:"error"`
}

type errorInnerJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Code    string   `json:"code" doc:"error code, for programs"`
	Message string   `json:"message" doc:"error message, for people"`
	HelpURL string   `json:"helpUrl,omitempty" format:"uri" doc:"page that explains the code"`
}

// fail writes an error reply. Internal errors are logged with their cause.
func (s *server) fail(w *reply, r *http.Request, log *slog.Logger, err error) {
	f := faultOf(err)
	switch {
	case errors.Is(err, errGone), errors.Is(r.Context().Err(), context.Canceled):
		return // the client has gone; nobody to reply to
	case f.Kind == fault.KindInternal || f.Kind == fault.KindUnavailable:
		log.Error("request failed", "err", err)
	}
	if w.status == 0 {
		s.writeFault(w, f, isLegacy(r))
	}
}

// faultOf converts an error of the store to the fault that clients see.
func faultOf(err error) *fault.Error {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return fault.Of(err)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fault.NotFound("not found").Because(err)
	case errors.Is(err, store.ErrFull):
		return fault.Unavailable("the server cannot write to its store").Named("store_full").
			Hint("nothing was saved; try again when the disk has free space").Because(err)
	case errors.Is(err, store.ErrUnknown):
		return fault.Unavailable("the connection to the store was lost, and it is unknown whether this was saved").Named("store_unknown").
			Hint("check before you try again").Because(err)
	case errors.Is(err, store.ErrUnreachable):
		return fault.Unavailable("the server's store does not answer").Named("store_unreachable").
			Hint("nothing was saved; try again later").Because(err)
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Unavailable("the request took too long").Named("timeout").Because(err)
	}
	return fault.Of(err)
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
		_ = writeJSON(w, status, v0.Error{Error: codeOf(f), Message: msg})
		return
	}
	_ = writeJSON(w, status, errorJSON{Error: errorInnerJSON{Code: codeOf(f), Message: msg, HelpURL: s.helpURL(codeOf(f))}})
}

// writeJSON writes a JSON reply. It ignores errors of the connection, since
// there is nobody left to report them to.
func writeJSON(w http.ResponseWriter, status int, body any) error {
	data, err := marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
	return nil
}

// marshal is [json.Marshal] without escaping <, > and &: browsers do not parse
// these replies as pages.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// quoted quotes and shortens untrusted text for an error message.
func quoted(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strconv.Quote(strings.ToValidUTF8(s, "�"))
}
