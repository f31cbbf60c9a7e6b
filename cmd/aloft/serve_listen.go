package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"aloft/internal/cli"
)

// listen listens at an address, and returns the URL by which programs of this
// host reach it.
func listen(address string) (net.Listener, string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		hint := "write an address of this host and a port, as in 127.0.0.1:8080; 0.0.0.0 is all its addresses"
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			hint = "another program listens there, perhaps another server: stop it, or give --listen another port; 0 takes a free one"
		case errors.Is(err, syscall.EACCES):
			hint = "ports below 1024 are root's: sudo -E aloft serve, or give --listen another port"
		}
		why := err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			why = op.Err // without the address, once more
		}
		return nil, "", &cli.Problem{Exit: cli.Failure, Code: "cannot_listen", Message: fmt.Sprintf("cannot listen on %s: %v", address, why), Hint: hint, Err: err}
	}
	at := l.Addr().String()
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		at = net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return l, "http://" + at, nil
}
