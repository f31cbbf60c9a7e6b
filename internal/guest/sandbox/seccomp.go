package sandbox

import (
	"fmt"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// archOffset is where the architecture of a call is in seccomp's data.
const archOffset = 4

// filter refuses sockets but unix and netlink ones, with EPERM. io_uring goes
// too: it makes sockets past seccomp.
func filter() ([]bpf.RawInstruction, error) {
	this, err := arch.GetInfo("")
	if err != nil {
		return nil, err
	}
	policy := seccomp.Policy{
		DefaultAction: seccomp.ActionAllow,
		Syscalls: []seccomp.SyscallGroup{{
			Action: seccomp.ActionErrno,
			Names:  []string{"io_uring_setup"},
			NamesWithCondtions: []seccomp.NameWithConditions{{
				Name: "socket",
				Conditions: seccomp.ArgumentConditions{
					{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_UNIX},
					{Argument: 0, Operation: seccomp.NotEqual, Value: unix.AF_NETLINK},
				},
			}},
		}},
	}
	rest, err := policy.Assemble()
	if err != nil {
		return nil, err
	}
	// The policy lets calls of another architecture pass (32-bit ones on a
	// 64-bit kernel), and sockets with them.
	return bpf.Assemble(append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(this.ID), SkipTrue: 1},
		bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
	}, rest...))
}

func refuseSockets() error {
	raw, err := filter()
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	// The filter is this thread's alone, as is all that Apply does.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
