package cgroup

import (
	"fmt"
	"os"
)

// SocketMemory returns how much memory, in bytes, the sockets of a machine or a
// build may use on cgroup v1, which counts it towards no other limit: an eighth
// of the amount at which the kernel slows down all TCP connections of the host.
func SocketMemory() (int64, error) {
	pages, err := os.ReadFile("/proc/sys/net/ipv4/tcp_mem")
	if err != nil {
		return 0, err
	}
	var low, pressure int64 // it has a third value, the maximum
	if _, err := fmt.Sscan(string(pages), &low, &pressure); err != nil {
		return 0, fmt.Errorf("tcp_mem %q: %w", pages, err)
	}
	return pressure * int64(os.Getpagesize()) / 8, nil
}
