package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Numbers of system calls in the i386 ABI.
const (
	i386Socketcall = 102
	i386Socket     = 359
	x32Bit         = 0x40000000
)

// otherABIs makes system calls through the other ABIs that amd64 kernels
// support. A tiny program makes each call.
func otherABIs() {
	if runtime.GOARCH != "amd64" {
		return
	}
	for _, try := range []struct {
		name       string
		x32        bool
		number     uint32
		a, b, c, d uint32
	}{
		{"i386 getpid", false, 20, 0, 0, 0, 0},
		{"i386 socket netfilter", false, i386Socket, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER, 0},
		{"i386 socket vsock", false, i386Socket, unix.AF_VSOCK, unix.SOCK_STREAM, 0, 0},
		{"i386 socketcall", false, i386Socketcall, 1, 0, 0, 0}, // socket(), whose arguments are at address 0
		{"i386 keyctl", false, 288, 0, 0, 0, 0},
		{"x32 getpid", true, 39, 0, 0, 0, 0},
		{"x32 socket vsock", true, 41, unix.AF_VSOCK, unix.SOCK_STREAM, 0, 0},
	} {
		code := int80(try.number, try.a, try.b, try.c)
		if try.x32 {
			code = syscall64(x32Bit|try.number, try.a, try.b, try.c)
		}
		say("abi "+try.name, runCode(code))
	}
}

// int80 returns code that makes an i386 system call and exits with its result.
func int80(number, a, b, c uint32) []byte {
	code := move(0xb8, number)            // mov eax
	code = append(code, move(0xbb, a)...) // mov ebx
	code = append(code, move(0xb9, b)...) // mov ecx
	code = append(code, move(0xba, c)...) // mov edx
	return append(code, append([]byte{0xcd, 0x80}, exit...)...)
}

// syscall64 returns code that makes an amd64 or x32 system call and exits with
// its result.
func syscall64(number, a, b, c uint32) []byte {
	code := move(0xb8, number)            // mov eax
	code = append(code, move(0xbf, a)...) // mov edi
	code = append(code, move(0xbe, b)...) // mov esi
	code = append(code, move(0xba, c)...) // mov edx
	return append(code, append([]byte{0x0f, 0x05}, exit...)...)
}

func move(opcode byte, value uint32) []byte {
	return binary.LittleEndian.AppendUint32([]byte{opcode}, value)
}

// exit is code that exits with the error in eax, or with 0 where there is none:
//
//	neg eax; jns failed; xor eax, eax; failed: mov edi, eax; mov eax, 60; syscall
var exit = []byte{0xf7, 0xd8, 0x79, 0x02, 0x31, 0xc0, 0x89, 0xc7, 0xb8, 60, 0, 0, 0, 0x0f, 0x05}

// runCode runs machine code as a program, and returns the error with which it
// exited.
func runCode(code []byte) string {
	const base, header = 0x400000, 64 + 56
	le := binary.LittleEndian
	elf := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 9)...)
	elf = le.AppendUint16(elf, 2)  // executable
	elf = le.AppendUint16(elf, 62) // amd64
	elf = le.AppendUint32(elf, 1)
	elf = le.AppendUint64(elf, base+header) // entry
	elf = le.AppendUint64(elf, 64)          // program headers
	elf = le.AppendUint64(elf, 0)
	elf = le.AppendUint32(elf, 0)
	for _, v := range []uint16{64, 56, 1, 0, 0, 0} {
		elf = le.AppendUint16(elf, v)
	}
	elf = le.AppendUint32(elf, 1) // load
	elf = le.AppendUint32(elf, 5) // readable, executable
	for _, v := range []uint64{0, base, base, uint64(header + len(code)), uint64(header + len(code)), 0x1000} {
		elf = le.AppendUint64(elf, v)
	}
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return err.Error()
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "code")
	if err := os.WriteFile(path, append(elf, code...), 0o755); err != nil {
		return err.Error()
	}
	err = exec.Command(path).Run()
	ended, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return "done"
	case !ok:
		return err.Error()
	case ended.Sys().(syscall.WaitStatus).Signaled():
		return ended.Sys().(syscall.WaitStatus).Signal().String()
	}
	return unix.ErrnoName(syscall.Errno(ended.ExitCode()))
}

// families opens sockets of every kind, some with arguments that only resemble
// another kind, and reports which kinds the seccomp filter allows. If the
// kernel does not support a kind, the error is not EPERM.
func families() {
	protocols := map[int][]int{
		unix.AF_INET:  {0, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, 33, 115, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, 255, 256, unix.IPPROTO_MPTCP},
		unix.AF_INET6: {0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6, 33, 115, unix.IPPROTO_SCTP, unix.IPPROTO_UDPLITE, 255, 256, unix.IPPROTO_MPTCP},
	}
	for p := range 24 {
		protocols[unix.AF_NETLINK] = append(protocols[unix.AF_NETLINK], p)
	}
	for family := range 48 {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_RDM, unix.SOCK_SEQPACKET, unix.SOCK_DCCP, unix.SOCK_PACKET} {
			list := protocols[family]
			if list == nil {
				list = []int{0}
			}
			for _, protocol := range list {
				fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
				if err == nil {
					_ = unix.Close(fd)
				}
				if !errors.Is(err, unix.EPERM) {
					say("socket", fmt.Sprint(family, " ", kind, " ", protocol))
				}
			}
		}
		if pair, err := unix.Socketpair(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); !errors.Is(err, unix.EPERM) {
			say("socketpair", fmt.Sprint(family))
			if err == nil {
				_, _ = unix.Close(pair[0]), unix.Close(pair[1])
			}
		}
	}
	const high = 1 << 32 // the kernel reads only 32 bits
	tell("wide socket vsock", raw(unix.SYS_SOCKET, high|unix.AF_VSOCK, unix.SOCK_STREAM, 0))
	tell("wide socket netfilter", raw(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, high|unix.NETLINK_NETFILTER))
	tell("wide family of netfilter", raw(unix.SYS_SOCKET, high|unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER))
}

// rerun runs the probe again in new namespaces. In its user namespace the probe
// has every capability.
func rerun(flags uintptr, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.Output()
	return string(out), err
}

// mountTypes returns the file system types to try: all that the kernel supports
// now, and some whose modules it could load.
func mountTypes() []string {
	all := slices.Clone(loadableTypes)
	text, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		tell("mount types", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // a line is the type, with "nodev" before it if no device is needed
		if kind := fields[len(fields)-1]; !slices.Contains(all, kind) {
			all = append(all, kind)
		}
	}
	return all
}

// The kernel may list loadableTypes in /proc/filesystems only after their first
// use.
var loadableTypes = []string{"cgroup", "cgroup2", "proc", "sysfs", "debugfs", "tracefs", "securityfs", "configfs", "fuse", "ext4", "xfs", "btrfs", "devtmpfs", "nfs", "9p", "squashfs",
	// Some kernels let user namespaces mount these.
	"binder", "bpf", "shiftfs", "zfs"}

// nested tries attacks that need a new user namespace.
func nested() {
	for name, flag := range map[string]uintptr{"cgroup": unix.CLONE_NEWCGROUP, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS} {
		_, err := rerun(flag, "nothing")
		tell("nested "+name+" namespace", err)
	}
	for name, flags := range map[string]uintptr{"a cgroup namespace": unix.CLONE_NEWCGROUP, "no cgroup namespace": 0} {
		out, err := rerun(unix.CLONE_NEWNS|flags, "cgroups")
		if err != nil {
			tell("limits with "+name, err)
			continue
		}
		for line := range strings.Lines(out) {
			say("limits with "+name, strings.TrimSpace(line))
		}
	}
	out, err := rerun(unix.CLONE_NEWNS|unix.CLONE_NEWPID|unix.CLONE_NEWNET|unix.CLONE_NEWIPC, "mounts")
	if err != nil {
		tell("nested mounts", err)
	}
	fmt.Print(out)
}

// nestedMounts mounts each of the types in the current namespaces.
func nestedMounts() {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		tell("nested mounts", err)
		return
	}
	for _, kind := range mountTypes() {
		options := ""
		switch kind {
		case "cgroup":
			options = "memory"
		case "fuse":
			options = "fd=0,rootmode=40000,user_id=0,group_id=0"
		}
		err := unix.Mount("none", dir, kind, 0, options)
		if err == nil {
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
		tell("mount type "+kind, err)
	}
}

// liftLimits mounts the cgroup file systems and tries to remove the limits that
// it finds at their root.
func liftLimits() {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		tell("temporary folder", err)
		return
	}
	for _, limit := range []struct{ kind, options, file, none string }{
		{"cgroup", "memory", "memory.limit_in_bytes", "-1"}, {"cgroup", "pids", "pids.max", "max"}, {"cgroup", "cpu", "cpu.cfs_quota_us", "-1"},
		{"cgroup2", "", "memory.max", "max"}, {"cgroup2", "", "pids.max", "max"}, {"cgroup2", "", "cpu.max", "max"},
	} {
		if err := unix.Mount("none", dir, limit.kind, 0, limit.options); err != nil {
			fmt.Println("mount", limit.kind, limit.options+":", err)
			continue
		}
		fmt.Println(limit.file+":", os.WriteFile(filepath.Join(dir, limit.file), []byte(limit.none), 0))
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
}
