// Package link creates the network of a machine: a namespace whose only way out
// is a TAP device. Package egress decides what the other end of the device does
// with the packets.
package link

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of the link. Package egress has the same values; a test compares them.
const (
	deviceName = "eth0"
	mtu        = 65500
	// GatewayV4 is the address of the other end, which answers name lookups.
	GatewayV4 = "172.30.0.1"
	// Resolver is the content of /etc/resolv.conf.
	Resolver = "nameserver " + GatewayV4 + "\noptions edns0\n"
)

var (
	machineV4 = [4]byte{172, 30, 0, 2}
	netmaskV4 = [4]byte{255, 255, 255, 0}
	routerV4  = [4]byte{172, 30, 0, 1}
	machineV6 = [16]byte{0: 0xfd, 2: 0xa1, 3: 0x0f, 15: 2}
	routerV6  = [16]byte{0: 0xfd, 2: 0xa1, 3: 0x0f, 15: 1}
)

// The main goroutine keeps the main thread. A thread that has entered
// namespaces ends with its goroutine, but the main thread cannot end, so
// /proc/self would show those namespaces.
func init() { runtime.LockOSThread() }

// A Link is a network namespace whose only way out is a TAP device, with a
// descriptor of that device.
type Link struct {
	Namespace *os.File
	Device    *os.File
}

// Make creates a link with its addresses and routes in namespace, or in a new
// network namespace if that is nil. A namespace exists until the link is closed
// and no process is left in it.
func Make(namespace *os.File) (Link, error) {
	var l Link
	done := make(chan error)
	go func() {
		// The thread stays in the new namespace, so it must end with this
		// goroutine.
		runtime.LockOSThread()
		done <- l.fill(namespace)
	}()
	if err := <-done; err != nil {
		return Link{}, errors.Join(fmt.Errorf("network: %w", err), l.Close())
	}
	return l, nil
}

// Reopen opens the TAP device of an existing link again, through the pidfd of a
// process in its namespace. The device exists as long as the namespace does,
// even if no process has the device open.
func Reopen(pidfd int) (device *os.File, err error) {
	var l Link
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // as in Make
		if err := unix.Setns(pidfd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("enter the machine's network: %w", err)
			return
		}
		done <- l.openDevice()
	}()
	if err := <-done; err != nil {
		return nil, errors.Join(fmt.Errorf("network: %w", err), l.Close())
	}
	return l.Device, nil
}

// CanMake returns nil if this host supports everything that a machine's network
// needs, and otherwise says what is missing.
func CanMake() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// Close closes the descriptors.
func (l Link) Close() error {
	var errs []error
	for _, f := range []*os.File{l.Namespace, l.Device} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// fill creates the link's parts. It moves the calling thread into the
// namespace.
func (l *Link) fill(namespace *os.File) error {
	if namespace == nil {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new namespace: %w", err)
		}
	} else if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the namespace: %w", err)
	}
	var err error
	if l.Namespace, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return err
	}
	// These sysctls are per namespace. If the host has no IPv6, the machine has
	// none either.
	v6 := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0) == nil
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0); err != nil {
		return err
	}
	// The link loses no packets and has no bandwidth limit, so congestion control
	// that paces packets, such as bbr, would only waste time on timers.
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte("reno"), 0); err != nil {
		return err
	}
	if err := l.openDevice(); err != nil {
		return err
	}
	if err := configureV4(); err != nil {
		return err
	}
	if v6 {
		return configureV6()
	}
	return nil
}

// openDevice opens the TAP device in the thread's namespace, creating it if
// needed.
func (l *Link) openDevice() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun (modprobe tun, or give this container the device): %w", err)
	}
	l.Device = os.NewFile(uintptr(fd), "/dev/net/tun")
	req, err := unix.NewIfreq(deviceName)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("create the TAP device: %w", err)
	}
	// Let the machine's kernel skip checksums and segmentation: the process at
	// the other end needs neither.
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6); err != nil {
		return fmt.Errorf("enable offloading on the TAP device: %w", err)
	}
	// The device outlives the process that opened it, and disappears with its
	// namespace.
	if err := unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 1); err != nil {
		return fmt.Errorf("make the TAP device persistent: %w", err)
	}
	return nil
}

// configureV4 sets up IPv4 on the namespace's interfaces.
func configureV4() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	up := func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }
	for _, step := range []struct {
		what string
		name string
		call uint
		set  func(*unix.Ifreq) error
	}{
		{"bring loopback up", "lo", unix.SIOCSIFFLAGS, up},
		{"set the MTU", deviceName, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }},
		{"address", deviceName, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(machineV4[:]) }},
		{"netmask", deviceName, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(netmaskV4[:]) }},
		{"bring the device up", deviceName, unix.SIOCSIFFLAGS, up},
	} {
		req, err := unix.NewIfreq(step.name)
		if err != nil {
			return err
		}
		if err := errors.Join(step.set(req), unix.IoctlIfreq(s, step.call, req)); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	route := rtentry{gateway: sockaddr(routerV4), dst: sockaddr([4]byte{}), mask: sockaddr([4]byte{}), flags: unix.RTF_UP | unix.RTF_GATEWAY}
	return ioctl(s, unix.SIOCADDRT, unsafe.Pointer(&route), "route")
}

// configureV6 sets up IPv6 on the device.
func configureV6() error {
	s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(s) }()
	req, err := unix.NewIfreq(deviceName)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFINDEX, req); err != nil {
		return fmt.Errorf("index of the device: %w", err)
	}
	index := int32(req.Uint32())
	addr := in6Ifreq{addr: machineV6, prefix: 64, index: index}
	if err := ioctl(s, unix.SIOCSIFADDR, unsafe.Pointer(&addr), "IPv6 address"); err != nil {
		return err
	}
	route := in6Rtmsg{gateway: routerV6, metric: 1, flags: unix.RTF_UP | unix.RTF_GATEWAY, index: index}
	return ioctl(s, unix.SIOCADDRT, unsafe.Pointer(&route), "IPv6 route")
}

// rtentry is struct rtentry of linux/route.h.
type rtentry struct {
	_                  uint64
	dst, gateway, mask unix.RawSockaddrInet4
	flags              uint16
	_                  int16
	_                  uint64
	_                  uintptr
	_                  int16 // metric
	_                  uintptr
	_, _               uint64
	_                  uint16
}

// in6Ifreq is struct in6_ifreq of linux/ipv6.h.
type in6Ifreq struct {
	addr   [16]byte
	prefix uint32
	index  int32
}

// in6Rtmsg is struct in6_rtmsg of linux/ipv6_route.h.
type in6Rtmsg struct {
	dst, src, gateway [16]byte
	_                 uint32
	_, _              uint16
	metric            uint32
	_                 uint64
	flags             uint32
	index             int32
}

func sockaddr(a [4]byte) unix.RawSockaddrInet4 {
	return unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: a}
}

func ioctl(fd int, call uintptr, arg unsafe.Pointer, what string) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), call, uintptr(arg)); errno != 0 {
		return fmt.Errorf("%s: %w", what, errno)
	}
	return nil
}
