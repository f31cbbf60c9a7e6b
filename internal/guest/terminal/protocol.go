package terminal

import (
	"bytes"
	"encoding/json"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// Channels: the first byte of a binary message says which way its other bytes go.
const (
	channelInput  = 0
	channelOutput = 1
	channelError  = 2
)

// maxFrame bounds a message from a viewer, in bytes.
const maxFrame = 256 << 10

// request is a text message from a viewer. Which fields count is for type to say.
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

// first are the types with which a viewer may begin.
var first = map[string]bool{"spawn": true, "attach": true, "terminal": true, "list": true}

// readRequest reads a text message. Fields that are not known are refused: a
// typo would otherwise do something else than was meant.
func readRequest(b []byte) (request, error) {
	var r request
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, fault.Invalid("the message is not one of this protocol: %v", err).Hint("see docs/reference/pty.md")
	}
	if dec.More() {
		return r, fault.Invalid("there is more than one value in the message").Hint("see docs/reference/pty.md")
	}
	return r, nil
}

// signalOf knows a signal by its name.
func signalOf(name string) (syscall.Signal, error) {
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, fault.Invalid("%.40q is no signal", name).At("signal").Hint("write it as SIGINT")
}

func exitEvent(e Exit) event {
	ev := event{Type: "exit", Code: &e.Code}
	if e.Signal != 0 {
		ev.Signal = unix.SignalName(e.Signal)
	}
	return ev
}
