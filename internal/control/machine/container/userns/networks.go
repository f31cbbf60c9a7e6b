package userns

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxNetworks is how many network namespaces a machine may have. The kernel charges
// less than half of a network namespace's memory to the cgroup of its creator: 90 of
// 210 KB on Linux 6.18. Each browser, each container and each command in the sandbox
// has one.
//
// minNetworks is how many a machine that may run Docker has at least, so that containers
// start on hosts that track many connections.
const (
	maxNetworks = 1024
	minNetworks = 32
)

// trackedConnection is how many bytes the kernel takes for a connection that it tracks
// (struct nf_conn on Linux 6.18).
const trackedConnection = 256

// usualTracked is the kernel's default of nf_conntrack_max on hosts with more than 4 GiB
// of memory. It applies once the module is loaded, which starting Docker does.
const usualTracked = 262144

// Networks returns how many network namespaces a machine may have. memory is the
// machine's memory limit in bytes; 0 means none.
//
// Root in a machine that may run Docker can have the kernel track connections. Each
// network namespace may track net.netfilter.nf_conntrack_max of them, and no cgroup
// counts their memory. So such a machine has as many namespaces as can track connections
// in as much memory as its limit, but from minNetworks to maxNetworks.
func Networks(docker bool, memory int64) (int, error) {
	if !docker {
		return maxNetworks, nil
	}
	if memory == 0 {
		var host unix.Sysinfo_t
		if err := unix.Sysinfo(&host); err != nil {
			return 0, err
		}
		memory = int64(host.Totalram) * int64(host.Unit)
	}
	tracked, err := maxTracked()
	if err != nil {
		return 0, err
	}
	return int(min(max(memory/(tracked*trackedConnection), minNetworks), maxNetworks)), nil
}

// maxTracked returns how many connections a network namespace may track.
func maxTracked() (int64, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
	if errors.Is(err, fs.ErrNotExist) { // the module is not loaded
		return usualTracked, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, err
	}
	if n <= 0 { // the kernel then tracks without a limit
		return 1 << 32, nil
	}
	return n, nil
}
