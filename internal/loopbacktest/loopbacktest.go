// Package loopbacktest provides loopback addresses for tests: one on which no program
// listens, and one for a program to listen on. Unlike a port that was found free, no
// other test can take these addresses.
package loopbacktest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// Closed returns an address that refuses connections until the test ends: the
// port is reserved, but nothing listens on it.
func Closed(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in4, _ := at.(*syscall.SockaddrInet4)
	return fmt.Sprintf("127.0.0.1:%d", in4.Port)
}

// Free returns an address on which a program can listen. Its host is one of the
// sixteen million loopback addresses, so no other test uses it.
func Free(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
