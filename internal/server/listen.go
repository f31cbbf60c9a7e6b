package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"aloft/internal/cli"
)

// Listen listens on an address.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		hint := "use an address of this host and a port, such as 127.0.0.1:8080; 0.0.0.0 means all addresses"
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			hint = "the port is in use, perhaps by another server: stop it, or choose another port with --listen; 0 picks a free one"
		case errors.Is(err, syscall.EACCES):
			hint = "ports below 1024 require root: use sudo -E aloft serve, or choose another port with --listen"
		}
		why := err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			why = op.Err // do not repeat the address
		}
		return nil, &cli.Problem{Exit: cli.Failure, Code: "cannot_listen", Message: fmt.Sprintf("cannot listen on %s: %v", address, why), Hint: hint, Err: err}
	}
	return l, nil
}

// urlOf returns the URL at which programs on this host reach the listener.
func urlOf(l net.Listener) string {
	at := l.Addr().String()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return "http://" + at
}
