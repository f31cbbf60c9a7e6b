package pod

import (
	"errors"

	"aloft/internal/wire/mux"
)

// ErrLost is wrapped by the errors of a connection that has ended: the machine
// is gone, hangs, or has been left by Close. Dialling again tells which.
var ErrLost = errors.New("connection to the machine is lost")

// ErrExceeded is wrapped, beside [ErrLost], by the errors of a connection that was
// ended because the machine used up a budget of it: streams, unread bytes, pings.
var ErrExceeded = mux.ErrExceeded
