package terminal

import (
	"bytes"
	"encoding/json"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// Channels. The first byte of a binary message is the channel of the other
// bytes.
const (
	channelInput  = 0
	channelOutput = 1
	channelError  = 2
)

// maxFrame is the largest message from a viewer, in bytes.
const maxFrame = 256 << 10

// request is a text message from a viewer. Type determines which other fields
// are used.
type request struct {
	Type     string            `json:"type"`
	ID       string            `json:"id,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir,omitempty"`
	Columns  uint16            `json:"columns,omitempty"`
	Rows     uint16            `json:"rows,omitempty"`
	TTY      *bool             `json:"tty,omitempty"`
	From     *int64            `json:"from,omitempty"`
	ReadOnly bool              `json:"readOnly,omitempty"`
	Terminal string            `json:"terminal,omitempty"`
	Signal   string            `json:"signal,omitempty"`
}

// event is a text message to a viewer.
type event struct {
	Type    string   `json:"type"`
	ID      string   `json:"id,omitempty"`
	TTY     bool     `json:"tty,omitempty"`
	PID     int      `json:"pid,omitempty"`
	Columns uint16   `json:"columns,omitempty"`
	Rows    uint16   `json:"rows,omitempty"`
	Offset  *int64   `json:"offset,omitempty"`
	Code    *int     `json:"code,omitempty"`
	Signal  string   `json:"signal,omitempty"`
	PTYs    *[]entry `json:"ptys,omitempty"`
	Error   string   `json:"error,omitempty"`
	Message string   `json:"message,omitempty"`
}

// entry is a PTY in a list.
type entry struct {
	ID      string   `json:"id"`
	Args    []string `json:"args"`
	PID     int      `json:"pid"`
	Columns uint16   `json:"columns"`
	Rows    uint16   `json:"rows"`
	Started string   `json:"startedAt"`
	Start   int64    `json:"start"`
	End     int64    `json:"end"`
	Code    *int     `json:"code,omitempty"`
}

// first lists the request types that may begin a connection.
var first = map[string]bool{"spawn": true, "attach": true, "terminal": true, "list": true}

// readRequest parses a text message. It rejects unknown fields, since ignoring
// a typo could do something unintended.
func readRequest(b []byte) (request, error) {
	var r request
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fault.Invalid("the message is not valid: %v", err).Hint("see docs/reference/pty.md")
	}
	if dec.More() {
		return r, fault.Invalid("the message has more than one JSON value").Hint("see docs/reference/pty.md")
	}
	return r, nil
}

// signalOf returns the signal with a name.
func signalOf(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, fault.Invalid("%.40q is not a signal", name).At("signal").Hint("use a name such as SIGINT")
}

func exitEvent(e Exit) event {
	ev := event{Type: "exit", Code: &e.Code}
	if e.Signal != 0 {
		ev.Signal = unix.SignalName(e.Signal)
	}
	return ev
}
