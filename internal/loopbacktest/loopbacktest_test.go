package loopbacktest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestClosed(t *testing.T) {
	at := Closed(t)
	if conn, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v", conn, err)
	}
	if _, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("somebody listens there: %v", err)
	}
}

func TestFree(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		at := Free(t)
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		host, _, _ := net.SplitHostPort(at)
		seen[host] = true
	}
	if len(seen) < 49 {
		t.Errorf("%d hosts of 50", len(seen))
	}
}
