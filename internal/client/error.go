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

// Error is an error reply of the server.
type Error struct {
	Status     int    // HTTP status
	Code       string // error code for programs, such as agent_busy
	Message    string // the server's message for people
	HelpURL    string
	RequestID  string // id of the request in the server's log
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Message }

// UnreachableError is a server that did not answer.
type UnreachableError struct {
	URL string
	Err error
}

func (e *UnreachableError) Error() string { return fmt.Sprintf("no answer from %s: %v", e.URL, e.Err) }

// Unwrap returns the underlying network error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// readError returns an error reply as an [*Error].
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

// unwrapURL removes the method and URL that http.Client adds to errors, because
// the message already contains them.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
