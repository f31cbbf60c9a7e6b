package hostd

import (
	"errors"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

// errorText is the JSON form of an error.
type errorText struct {
	Text    string                  `json:"text"`
	Names   []string                `json:"names,omitempty"` // names of the sentinel errors that it wraps
	Fault   *faultText              `json:"fault,omitempty"`
	Exit    *unix.WaitStatus        `json:"exit,omitempty"` // of a [confine.ExitError]
	Failure *dockerfile.Failure     `json:"failure,omitempty"`
	Disk    *machine.DiskLimitError `json:"disk,omitempty"`
}

// faultText is the JSON form of a [fault.Error].
type faultText struct {
	Kind                         fault.Kind
	Code, Field, Message, Advice string
	Cause                        string
}

// sentinels are the errors that callers check for with errors.Is.
var sentinels = map[string]error{
	"machine not found": machine.ErrNotFound,
	"machine stopped":   machine.ErrStopped,
	"no memory":         machine.ErrNoMemory,
	"no network":        machine.ErrNoNetwork,
	"too many files":    machine.ErrTooManyFiles,
}

// encodeError returns the JSON form of an error, or nil for nil.
func encodeError(err error) *errorText {
	if err == nil {
		return nil
	}
	e := &errorText{Text: err.Error()}
	for name, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			e.Names = append(e.Names, name)
		}
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		e.Fault = &faultText{Kind: f.Kind, Code: f.Code, Field: f.Field, Message: f.Message, Advice: f.Advice}
		if f.Cause != nil {
			e.Fault.Cause = f.Cause.Error()
		}
	}
	if exit, ok := errors.AsType[*confine.ExitError](err); ok {
		e.Exit = &exit.Status
	}
	if failure, ok := errors.AsType[*dockerfile.Failure](err); ok {
		e.Failure = failure
	}
	if over, ok := errors.AsType[machine.DiskLimitError](err); ok {
		e.Disk = &over
	}
	return e
}

// remoteError is an error received from the other process.
type remoteError struct {
	text  string
	wraps []error
}

// Error implements error.
func (e *remoteError) Error() string { return e.text }

// Unwrap returns the errors that the original error wraps.
func (e *remoteError) Unwrap() []error { return e.wraps }

// decode returns the error, or nil for nil.
func (e *errorText) decode() error {
	if e == nil {
		return nil
	}
	err := &remoteError{text: e.Text}
	for _, name := range e.Names {
		if sentinel := sentinels[name]; sentinel != nil {
			err.wraps = append(err.wraps, sentinel)
		}
	}
	if f := e.Fault; f != nil {
		made := &fault.Error{Kind: f.Kind, Code: f.Code, Field: f.Field, Message: f.Message, Advice: f.Advice}
		if f.Cause != "" {
			made.Cause = errors.New(f.Cause)
		}
		err.wraps = append(err.wraps, made)
	}
	if e.Exit != nil {
		err.wraps = append(err.wraps, &confine.ExitError{Status: *e.Exit})
	}
	if e.Failure != nil {
		err.wraps = append(err.wraps, e.Failure)
	}
	if e.Disk != nil {
		err.wraps = append(err.wraps, *e.Disk)
	}
	return err
}
