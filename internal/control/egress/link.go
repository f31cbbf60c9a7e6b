package egress

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/rawfile"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// linkAddress is the gateway's MAC address, locally administered.
const linkAddress = tcpip.LinkAddress("\x02\x0a\x10\x0f\x00\x01")

// Sizes in bytes of the headers before a packet on the device: the offload
// header (struct virtio_net_hdr) and Ethernet.
const (
	offloadSize = 10
	frontSize   = offloadSize + header.EthernetMinimumSize
)

// Sizes of reads from the device in bytes. The kernel passes TCP data
// unsegmented, so a read can exceed the MTU. A packet that fills less than half
// of its read buffer is copied, so that small packets do not pin large buffers.
const (
	largestRead = 64 << 10 // the largest chunk that the stack pools
	copiedRead  = largestRead / 2
)

// largestSegment is the largest TCP packet, with all headers, that the stack
// passes to the device: the maximum of an IP packet.
const largestSegment = 64 << 10

// A tapLink is the stack's end of a TAP device with checksum and segmentation
// offload: neither end computes checksums, since the packets cross no wire.
type tapLink struct {
	device *os.File
	raw    syscall.RawConn
	to     atomic.Pointer[stack.NetworkDispatcher]
	read   sync.WaitGroup
}

var _ stack.GSOEndpoint = (*tapLink)(nil)

// openLink returns the link of a device and takes ownership of it.
func openLink(device *os.File) (*tapLink, error) {
	// Reads of a non-blocking descriptor wait in Go's poller and occupy no
	// thread.
	fd, err := unix.FcntlInt(device.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	if err := errors.Join(unix.SetNonblock(fd, true), device.Close()); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	l := &tapLink{device: os.NewFile(uintptr(fd), device.Name())}
	if l.raw, err = l.device.SyscallConn(); err != nil {
		return nil, errors.Join(err, l.device.Close())
	}
	return l, nil
}

// Attach implements [stack.LinkEndpoint]. The link reads until Attach is called
// with nil.
func (l *tapLink) Attach(to stack.NetworkDispatcher) {
	if to == nil {
		_ = l.device.SetReadDeadline(time.Unix(1, 0)) // the device supports deadlines, so this cannot fail
		l.to.Store(nil)
		return
	}
	if l.to.CompareAndSwap(nil, &to) {
		l.read.Go(func() { l.deliver(to) })
	}
}

// deliver passes packets from the machine to the stack.
func (l *tapLink) deliver(to stack.NetworkDispatcher) {
	var room *buffer.View
	for {
		if room == nil {
			room = buffer.NewViewSize(largestRead)
		}
		n, err := l.device.Read(room.AsSlice())
		if err != nil {
			room.Release()
			return
		}
		if n <= frontSize {
			continue
		}
		frame := room
		if n <= copiedRead {
			frame = buffer.NewViewWithData(room.AsSlice()[:n])
		} else {
			frame.CapLength(n)
			room = nil
		}
		frame.TrimFront(offloadSize)
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(frame)})
		if l.ParseHeader(pkt) {
			to.DeliverNetworkPacket(pkt.NetworkProtocolNumber, pkt)
		}
		pkt.DecRef()
	}
}

// WritePackets implements [stack.LinkEndpoint].
func (l *tapLink) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	for i, pkt := range pkts.AsSlice() {
		offload(pkt)
		var parts [4]unix.Iovec // a packet usually has at most this many parts
		iovecs := parts[:0]
		for _, part := range pkt.AsSlices() {
			iovecs = rawfile.AppendIovecFromBytes(iovecs, part, rawfile.MaxIovs)
		}
		var errno unix.Errno
		if l.raw.Control(func(fd uintptr) { errno = rawfile.NonBlockingWriteIovec(int(fd), iovecs) }) != nil {
			return i, &tcpip.ErrClosedForSend{}
		}
		if errno != 0 {
			return i, tcpip.TranslateErrno(errno)
		}
	}
	return pkts.Len(), nil
}

// offload fills in the packet's offload header for the kernel.
func offload(pkt *stack.PacketBuffer) {
	const needsSum, cutV4, cutV6 = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_TCPV4, unix.VIRTIO_NET_HDR_GSO_TCPV6
	h, gso := pkt.LinkHeader().Slice()[:offloadSize], pkt.GSOOptions
	put := func(at int, v uint16) { h[at], h[at+1] = byte(v), byte(v>>8) } // little-endian, as on every host that the stack supports
	put(2, uint16(pkt.HeaderSize()-offloadSize))
	if gso.Type == stack.GSONone {
		return
	}
	if gso.NeedsCsum {
		h[0] = needsSum
		put(6, header.EthernetMinimumSize+gso.L3HdrLen)
		put(8, gso.CsumOffset)
	}
	if pkt.Data().Size() > int(gso.MSS) {
		h[1] = cutV4
		if gso.Type == stack.GSOTCPv6 {
			h[1] = cutV6
		}
		put(4, gso.MSS)
	}
}

// AddHeader implements [stack.LinkEndpoint].
func (l *tapLink) AddHeader(pkt *stack.PacketBuffer) {
	h := pkt.LinkHeader().Push(frontSize)
	header.Ethernet(h[offloadSize:]).Encode(&header.EthernetFields{
		SrcAddr: pkt.EgressRoute.LocalLinkAddress, DstAddr: pkt.EgressRoute.RemoteLinkAddress, Type: pkt.NetworkProtocolNumber,
	})
}

// ParseHeader implements [stack.LinkEndpoint]. It returns false for frames to
// other addresses.
func (l *tapLink) ParseHeader(pkt *stack.PacketBuffer) bool {
	h, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize)
	if !ok {
		return false
	}
	pkt.NetworkProtocolNumber = header.Ethernet(h).Type()
	to := header.Ethernet(h).DestinationAddress()
	return to == linkAddress || to[0]&1 == 1 // multicast or broadcast
}

// GSOMaxSize implements [stack.GSOEndpoint].
func (*tapLink) GSOMaxSize() uint32 { return largestSegment }

// SupportedGSO implements [stack.GSOEndpoint].
func (*tapLink) SupportedGSO() stack.SupportedGSO { return stack.HostGSOSupported }

// Capabilities implements [stack.LinkEndpoint].
func (*tapLink) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityResolutionRequired | stack.CapabilityRXChecksumOffload
}

// Wait implements [stack.LinkEndpoint]. It returns at once: the caller holds a
// lock that the last delivery may need.
func (*tapLink) Wait() {}

// Close implements [stack.LinkEndpoint].
func (l *tapLink) Close() {
	l.read.Wait()
	_ = l.device.Close()
}

// The other methods of [stack.LinkEndpoint]. The link never changes.

func (*tapLink) MTU() uint32                             { return MTU }
func (*tapLink) SetMTU(uint32)                           {}
func (*tapLink) MaxHeaderLength() uint16                 { return frontSize }
func (*tapLink) LinkAddress() tcpip.LinkAddress          { return linkAddress }
func (*tapLink) SetLinkAddress(tcpip.LinkAddress)        {}
func (l *tapLink) IsAttached() bool                      { return l.to.Load() != nil }
func (*tapLink) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (*tapLink) SetOnCloseAction(func())                 {}
