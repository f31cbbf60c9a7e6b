package pod

import "errors"

// ErrLost is wrapped by the errors of a connection that has ended: the machine
// is gone, hangs, or has been left by Close. Dialling again tells which.
var ErrLost = errors.New("connection to the machine is lost")
