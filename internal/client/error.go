package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Error is a refusal by the server.
type Error struct {
	Status     int    // of HTTP
	Code       string // for programs: agent_busy
	Message    string // for people; the server's words
	HelpURL    string
	RequestID  string // under which the server's log has it
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Message }

// UnreachableError is a server that did not answer.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err) }

// Unwrap returns what the network said.
func (e *UnreachableError) Unwrap() error { return e.Err }

// readError makes an [*Error] of a reply that is none of success.
func readError(reply *http.Response) error {
	e := &Error{
		Status:    reply.StatusCode,
		Code:      fmt.Sprintf("http_%d", reply.StatusCode),
		Message:   fmt.Sprintf("the server answered %d %s", reply.StatusCode, http.StatusText(reply.StatusCode)),
		RequestID: reply.Header.Get("X-Request-Id"),
	}
	if wait, err := time.ParseDuration(reply.Header.Get("Retry-After") + "s"); err == nil {
		e.RetryAfter = wait
	}
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxError))
	if err != nil {
		return e
	}
	var body struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
			HelpURL string `json:"helpUrl"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &body) == nil && body.Error.Message != "" {
		e.Code, e.Message, e.HelpURL = body.Error.Code, body.Error.Message, body.Error.HelpURL
	}
	return e
}

// unwrapURL takes off what http.Client says around an error: method and URL,
// which are in the message already.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
