package sandbox

import (
	"encoding/binary"
	"testing"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

func TestFilter(t *testing.T) {
	t.Parallel()
	raw, err := filter()
	if err != nil {
		t.Fatal(err)
	}
	program, whole := bpf.Disassemble(raw)
	if !whole {
		t.Fatal("the filter does not disassemble")
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	native, err := arch.GetInfo("")
	if err != nil {
		t.Fatal(err)
	}
	const (
		allow  = unix.SECCOMP_RET_ALLOW
		eperm  = unix.SECCOMP_RET_ERRNO | int(unix.EPERM)
		enosys = unix.SECCOMP_RET_ERRNO | int(unix.ENOSYS)
	)
	tests := []struct {
		name   string
		arch   uint32
		number uint32
		first  uint64
		want   int
	}{
		{"unix", uint32(native.ID), unix.SYS_SOCKET, unix.AF_UNIX, allow},
		{"netlink", uint32(native.ID), unix.SYS_SOCKET, unix.AF_NETLINK, allow},
		{"ipv4", uint32(native.ID), unix.SYS_SOCKET, unix.AF_INET, eperm},
		{"ipv6", uint32(native.ID), unix.SYS_SOCKET, unix.AF_INET6, eperm},
		{"vsock", uint32(native.ID), unix.SYS_SOCKET, unix.AF_VSOCK, eperm},
		{"ipv4 with bits that the kernel ignores", uint32(native.ID), unix.SYS_SOCKET, 1<<32 | unix.AF_INET, eperm},
		{"io_uring", uint32(native.ID), unix.SYS_IO_URING_SETUP, 0, eperm},
		{"another call", uint32(native.ID), unix.SYS_READ, 2, allow},
		{"a call of another architecture", uint32(arch.I386.ID), 102, 1, enosys},
	}
	for _, tt := range tests {
		// The virtual machine reads as from the network, word by word.
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data[0:], tt.number)
		binary.BigEndian.PutUint32(data[4:], tt.arch)
		low, high := 16, 20
		if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
			low, high = high, low
		}
		binary.BigEndian.PutUint32(data[low:], uint32(tt.first))
		binary.BigEndian.PutUint32(data[high:], uint32(tt.first>>32))
		got, err := vm.Run(data)
		if err != nil || got != tt.want {
			t.Errorf("%s: %#x, %v; want %#x", tt.name, got, err, tt.want)
		}
	}
}
