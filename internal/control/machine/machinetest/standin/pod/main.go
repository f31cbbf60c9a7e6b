// Command pod runs the stand-in guest as PID 1 of a machine.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"aloft/internal/control/machine/machinetest/standin"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "stand-in:", err)
		os.Exit(1)
	}
}

func run() error {
	socket, ok := os.LookupEnv("ALOFT_POD_SOCKET")
	if !ok {
		return errors.New("ALOFT_POD_SOCKET is not set")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	return standin.Serve(context.Background(), "/var", l)
}
