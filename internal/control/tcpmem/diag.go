package tcpmem

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Constants of linux/sock_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20
	diagSkMemInfo    = 7  // INET_DIAG_SKMEMINFO
	requestSize      = 56 // struct inet_diag_req_v2
	messageSize      = 72 // struct inet_diag_msg, before the attributes
	memInfoReceived  = 0  // SK_MEMINFO_RMEM_ALLOC: indexes in the attribute, an array of uint32
	memInfoForward   = 4  // SK_MEMINFO_FWD_ALLOC
	memInfoQueued    = 5  // SK_MEMINFO_WMEM_QUEUED
)

// inNamespace returns how many bytes of TCP memory the connections in a network namespace
// use, including those that nobody has accepted and those that nobody has open any more.
func inNamespace(ns *os.File) (int64, error) {
	socket, err := diagSocket(ns)
	if err != nil {
		return 0, fmt.Errorf("list the connections of a network namespace: %w", err)
	}
	defer func() { _ = unix.Close(socket) }()
	total := int64(0)
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		n, err := dump(socket, family)
		if err != nil {
			return 0, fmt.Errorf("list the connections of a network namespace: %w", err)
		}
		total += n
	}
	return total, nil
}

// diagSocket opens a socket in the namespace that lists its connections.
func diagSocket(ns *os.File) (int, error) {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	defer func() { _ = own.Close() }()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, so that no other goroutine runs in the namespace.
		if err == nil {
			_ = unix.Close(socket)
		}
		return -1, errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	if err != nil {
		return -1, err
	}
	return socket, unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
}

// dump adds up the memory of the connections of an address family.
func dump(socket int, family byte) (total int64, err error) {
	request := make([]byte, unix.NLMSG_HDRLEN+requestSize)
	binary.NativeEndian.PutUint32(request[0:], uint32(len(request)))
	binary.NativeEndian.PutUint16(request[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	body := request[unix.NLMSG_HDRLEN:]
	body[0], body[1] = family, unix.IPPROTO_TCP
	body[2] = 1 << (diagSkMemInfo - 1)
	const timeWait, newSynReceived = 6, 12 // states of connections without buffers
	binary.NativeEndian.PutUint32(body[4:], ^uint32(1<<timeWait|1<<newSynReceived))
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	reply := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(socket, reply, 0)
		if err != nil {
			return 0, err
		}
		messages, err := syscall.ParseNetlinkMessage(reply[:n])
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			switch {
			case m.Header.Type == unix.NLMSG_DONE:
				return total, nil
			case m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4:
				return 0, unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			case m.Header.Type == sockDiagByFamily && len(m.Data) >= messageSize:
				total += memoryOf(m.Data[messageSize:])
			}
		}
	}
}

// memoryOf returns the TCP memory of a connection with the given attributes: the data
// that it has received and that it sends, and what it has reserved.
func memoryOf(attributes []byte) (n int64) {
	const head, word = unix.SizeofRtAttr, 4
	for len(attributes) >= head {
		size, kind := int(binary.NativeEndian.Uint16(attributes)), binary.NativeEndian.Uint16(attributes[2:])
		if size < head || size > len(attributes) {
			return n
		}
		if value := attributes[head:size]; kind == diagSkMemInfo && len(value) >= (memInfoQueued+1)*word {
			for _, i := range []int{memInfoReceived, memInfoForward, memInfoQueued} {
				n += int64(binary.NativeEndian.Uint32(value[i*word:]))
			}
		}
		attributes = attributes[min((size+word-1)&^(word-1), len(attributes)):]
	}
	return n
}
