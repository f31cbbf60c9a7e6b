package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// Error codes whose HTTP status differs from that of their kind.
const (
	CodeMethod  = "method_not_allowed"
	CodeTooLong = "payload_too_large"
	CodeCoding  = "unsupported_media_type"
	CodeStream  = "stream_unavailable"
)

// ErrorInnerJSON is an error, in a reply or as part of one.
type ErrorInnerJSON struct {
	_       struct{} `json:"-" additionalProperties:"true"`
	Code    string   `json:"code" doc:"error code, for programs"`
	Message string   `json:"message" doc:"error message, for people"`
	HelpURL string   `json:"helpUrl,omitempty" format:"uri" doc:"page that explains the code"`
}

// FaultOf converts an error of the store to the fault that clients see.
func FaultOf(err error) *fault.Error {
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

// WriteJSON writes a JSON reply. It ignores errors of the connection, since
// there is nobody left to report them to.
func WriteJSON(w http.ResponseWriter, status int, body any) error {
	data, err := Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
	return nil
}

// Marshal is like [json.Marshal] but does not escape <, > and &: browsers do
// not parse these replies as pages.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Error codes that several handlers use.
const (
	CodeRole      = "role_forbidden"
	CodeTeamAdmin = "team_admin_required"
	CodeOff       = "feature_unavailable"
	CodeNoBuild   = "build_not_found"
	CodeUpstream  = "upstream_error"
	CodeInternal  = "internal_error"
)

// FailureOf returns a failure in the API's form.
func FailureOf(f *agent.Failure) *ErrorInnerJSON {
	e := &ErrorInnerJSON{Code: f.Code, Message: f.Message}
	if f.Hint != "" {
		e.Message += " (" + f.Hint + ")"
	}
	return e
}
