package pid1

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// raiseLoopback brings up the loopback interface, unless the container runtime has done
// so. raised is true if the interface was down.
func raiseLoopback() (raised bool, err error) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return false, fmt.Errorf("loopback: %w", err)
	}
	if lo.Flags&net.FlagUp != 0 {
		return false, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("loopback: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return false, fmt.Errorf("loopback: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return false, fmt.Errorf("bring loopback up (the container runtime should have): %w", err)
	}
	return true, nil
}
