package pod

import (
	"errors"

	"aloft/internal/wire/mux"
)

// ErrLost is wrapped by errors of a connection that has ended: the machine is
// gone or hangs, or Close was called. Dial again to find out which.
var ErrLost = errors.New("connection to the machine is lost")

// ErrExceeded is wrapped, together with [ErrLost], by errors of a connection
// that was closed because the machine exceeded a limit: streams, unread bytes
// or pings.
var ErrExceeded = mux.ErrExceeded
