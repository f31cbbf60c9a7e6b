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

// linkAddress is the gateway's on the link: locally administered.
const linkAddress = tcpip.LinkAddress("\x02\x0a\x10\x0f\x00\x01")

// Sizes of what lies before a packet on the device, in bytes: what the kernel
// and a network card tell each other (struct virtio_net_hdr), and Ethernet.
const (
	offloadSize = 10
	frontSize   = offloadSize + header.EthernetMinimumSize
)

// Sizes of what is read from the device, in bytes. The kernel hands over
// packets of TCP before they are cut into those of the MTU. What fills less than
// half of the memory that it was read into is copied: a machine that sends small
// packets must not make its gateway hold large ones.
const (
	largestRead = 64 << 10 // the largest chunk that the stack pools
	copiedRead  = largestRead / 2
)

// largestSegment bounds what the stack hands over at once of TCP, with all
// headers: a packet of IP holds no more.
const largestSegment = 64 << 10

// A tapLink is the stack's end of a TAP device whose packets carry what the
// kernel needs to check and cut them: neither side computes a checksum for the
// other, since the packets cross no wire.
type tapLink struct {
	device *os.File
	raw    syscall.RawConn
	to     atomic.Pointer[stack.NetworkDispatcher]
	read   sync.WaitGroup
}

var _ stack.GSOEndpoint = (*tapLink)(nil)

// openLink makes the link of a device, which is the link's from now on.
func openLink(device *os.File) (*tapLink, error) {
	// A descriptor that does not block before it becomes a file has its reads
	// waited for without a thread.
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

// Attach implements [stack.LinkEndpoint]: the link reads until this is called
// with nil.
func (l *tapLink) Attach(to stack.NetworkDispatcher) {
	if to == nil {
		_ = l.device.SetReadDeadline(time.Unix(1, 0)) // it is one that can be waited for
		l.to.Store(nil)
		return
	}
	if l.to.CompareAndSwap(nil, &to) {
		l.read.Go(func() { l.deliver(to) })
	}
}

// deliver gives the stack what the machine sends.
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
		var parts [4]unix.Iovec // as many as a packet has as a rule
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

// offload writes what the kernel has to do with a packet before the packet.
func offload(pkt *stack.PacketBuffer) {
	const needsSum, cutV4, cutV6 = unix.VIRTIO_NET_HDR_F_NEEDS_CSUM, unix.VIRTIO_NET_HDR_GSO_TCPV4, unix.VIRTIO_NET_HDR_GSO_TCPV6
	h, gso := pkt.LinkHeader().Slice()[:offloadSize], pkt.GSOOptions
	put := func(at int, v uint16) { h[at], h[at+1] = byte(v), byte(v>>8) } // little-endian on every host that Go's stack runs on
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

// ParseHeader implements [stack.LinkEndpoint]. False is a frame for another.
func (l *tapLink) ParseHeader(pkt *stack.PacketBuffer) bool {
	h, ok := pkt.LinkHeader().Consume(header.EthernetMinimumSize)
	if !ok {
		return false
	}
	pkt.NetworkProtocolNumber = header.Ethernet(h).Type()
	to := header.Ethernet(h).DestinationAddress()
	return to == linkAddress || to[0]&1 == 1 // to several, or to all
}

// GSOMaxSize implements [stack.GSOEndpoint].
func (*tapLink) GSOMaxSize() uint32 { return largestSegment }

// SupportedGSO implements [stack.GSOEndpoint].
func (*tapLink) SupportedGSO() stack.SupportedGSO { return stack.HostGSOSupported }

// Capabilities implements [stack.LinkEndpoint].
func (*tapLink) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityResolutionRequired | stack.CapabilityRXChecksumOffload
}

// Wait implements [stack.LinkEndpoint]. It does not wait: the stack that calls
// it holds what the last delivery may need.
func (*tapLink) Wait() {}

// Close implements [stack.LinkEndpoint].
func (l *tapLink) Close() {
	l.read.Wait()
	_ = l.device.Close()
}

// The rest of [stack.LinkEndpoint]. The link does not change.

func (*tapLink) MTU() uint32                             { return MTU }
func (*tapLink) SetMTU(uint32)                           {}
func (*tapLink) MaxHeaderLength() uint16                 { return frontSize }
func (*tapLink) LinkAddress() tcpip.LinkAddress          { return linkAddress }
func (*tapLink) SetLinkAddress(tcpip.LinkAddress)        {}
func (l *tapLink) IsAttached() bool                      { return l.to.Load() != nil }
func (*tapLink) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (*tapLink) SetOnCloseAction(func())                 {}
