// Package seccomp creates the system call filters of machines: Docker's default
// profile, adjusted by the table of package calls.
package seccomp

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"aloft/internal/policy/calls"
)

// rules is the default profile of Docker, from the module
// github.com/moby/profiles/seccomp v0.1.0, under the Apache License 2.0,
// unchanged. Its rules depend on the processor, the kernel and the capabilities.
//
//go:embed docker.json
var rules []byte

type profile struct {
	DefaultAction   specs.LinuxSeccompAction `json:"defaultAction"`
	DefaultErrnoRet *uint                    `json:"defaultErrnoRet"`
	Syscalls        []struct {
		specs.LinuxSyscall
		Includes condition `json:"includes"`
		Excludes condition `json:"excludes"`
	} `json:"syscalls"`
}

type condition struct {
	Caps      []string `json:"caps"`
	Arches    []string `json:"arches"`
	MinKernel string   `json:"minKernel"`
}

var architectures = map[string]specs.Arch{
	"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64, "riscv64": specs.ArchRISCV64, "s390x": specs.ArchS390X,
}

// Profile returns Docker's default profile: the rules that apply to a processor
// architecture in Go's spelling, a kernel version (major, minor) and a set of
// capabilities.
func Profile(arch string, kernel [2]int, caps []string) (*specs.LinuxSeccomp, error) {
	var file profile
	if err := json.Unmarshal(rules, &file); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	native, ok := architectures[arch]
	if !ok {
		return nil, fmt.Errorf("seccomp profile: no rules for processor %s", arch)
	}
	p := &specs.LinuxSeccomp{DefaultAction: file.DefaultAction, DefaultErrnoRet: file.DefaultErrnoRet}
	// Allow the native ABI only. Other ABIs number the calls differently, so the
	// rules would not match, and socketcall passes its arguments in memory. A
	// process that uses another ABI is killed.
	p.Architectures = []specs.Arch{native}
	for _, rule := range file.Syscalls {
		in, ex := rule.Includes, rule.Excludes
		needs, err := kernelAtLeast(kernel, in.MinKernel)
		if err != nil {
			return nil, err
		}
		barred := false
		if ex.MinKernel != "" {
			if barred, err = kernelAtLeast(kernel, ex.MinKernel); err != nil {
				return nil, err
			}
		}
		for _, c := range in.Caps {
			needs = needs && slices.Contains(caps, c)
		}
		for _, c := range ex.Caps {
			barred = barred || slices.Contains(caps, c)
		}
		if len(in.Arches) > 0 && !slices.Contains(in.Arches, arch) {
			needs = false
		}
		if slices.Contains(ex.Arches, arch) {
			barred = true
		}
		if needs && !barred {
			p.Syscalls = append(p.Syscalls, rule.LinuxSyscall)
		}
	}
	return p, nil
}

// sandboxCalls are the system calls with which the sandbox inside a machine
// mounts file systems. Outside of a user namespace the kernel refuses these
// calls without CAP_SYS_ADMIN, which no process in a machine has.
var sandboxCalls = []string{"mount", "umount2", "open_tree", "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount"}

// Machine returns the filter of a machine whose root has the given capabilities.
//
// A machine may create user namespaces, because the sandbox around single
// commands needs them. That exposes parts of the kernel that Docker's profile
// blocks: mounting and network configuration. In return, the filter blocks the
// parts with the most vulnerabilities for every process in the machine: the
// packet filter, rare socket families, and cgroup namespaces, whose owner could
// mount the files with the machine's limits.
//
// With docker, the filter is that of a machine that may run Docker, which needs
// these parts, except for rare socket families.
func Machine(arch string, kernel [2]int, capabilities []string, docker bool) (*specs.LinuxSeccomp, error) {
	kind := calls.Machine
	if docker {
		kind = calls.Docker
	}
	p, err := Profile(arch, kernel, capabilities)
	if err != nil {
		return nil, err
	}
	refused := append(calls.RefusedTo(kind), "socket", "socketpair", "socketcall")
	options := []string{"getsockopt", "setsockopt"}
	if !docker {
		refused = append(refused, options...)
	}
	for i := range p.Syscalls {
		p.Syscalls[i].Names = slices.DeleteFunc(p.Syscalls[i].Names, func(name string) bool { return slices.Contains(refused, name) })
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule specs.LinuxSyscall) bool { return len(rule.Names) == 0 })
	// Arguments are compared as 64 bits, but the kernel reads only 32. A value
	// with a higher bit set matches no rule and is refused.
	equal := func(index uint, value int) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: uint64(value), Op: specs.OpEqualTo}
	}
	masked := func(index uint, mask, value uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}
	}
	allow := func(names []string, args ...specs.LinuxSeccompArg) {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args})
	}
	for _, s := range calls.SocketsOf(kind) {
		product := [][]specs.LinuxSeccompArg{{equal(0, s.Family)}}
		product = each(product, s.Types, func(v int) specs.LinuxSeccompArg { return masked(1, calls.TypeMask, uint64(v)) })
		product = each(product, s.Protocols, func(v int) specs.LinuxSeccompArg { return equal(2, v) })
		for _, args := range product {
			allow([]string{"socket"}, args...)
		}
	}
	allow([]string{"socketpair"}, equal(0, unix.AF_UNIX))
	if docker {
		allow([]string{"pivot_root"}) // Docker's profile is for containers, which start no containers themselves
		// runc starts containers without a keyring only if the kernel has none.
		missing := uint(unix.ENOSYS)
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: []string{"keyctl"}, Action: specs.ActErrno, ErrnoRet: &missing})
		return p, nil
	}
	for _, o := range calls.Options {
		args := []specs.LinuxSeccompArg{masked(1, math.MaxUint32, uint64(o.Level))}
		if o.Mask != 0 {
			args = append(args, masked(2, uint64(o.Mask), uint64(o.Value)))
		}
		allow(options, args...)
	}
	const barred = calls.Namespaces &^ calls.MachineNamespaces
	allow([]string{"clone"}, masked(0, barred, 0))
	allow([]string{"unshare"}, masked(0, barred|unix.CLONE_NEWTIME, 0))
	allow(sandboxCalls)
	return p, nil
}

// each returns the product of rules and values: every rule combined with
// arg(value) for every value. Without values it returns the rules unchanged.
func each(rules [][]specs.LinuxSeccompArg, values []int, arg func(int) specs.LinuxSeccompArg) (out [][]specs.LinuxSeccompArg) {
	if values == nil {
		return rules
	}
	for _, r := range rules {
		for _, v := range values {
			out = append(out, append(slices.Clone(r), arg(v)))
		}
	}
	return out
}

// kernelAtLeast reports whether the kernel is at least the version least, such
// as "4.8". Every kernel satisfies "".
func kernelAtLeast(kernel [2]int, least string) (bool, error) {
	if least == "" {
		return true, nil
	}
	v, err := ParseKernel(least)
	if err != nil {
		return false, err
	}
	return kernel[0] > v[0] || kernel[0] == v[0] && kernel[1] >= v[1], nil
}

// ParseKernel returns the major and minor number of a kernel version such as
// "6.1.0-44-amd64".
func ParseKernel(s string) (v [2]int, err error) {
	if _, err := fmt.Sscanf(s, "%d.%d", &v[0], &v[1]); err != nil {
		return v, fmt.Errorf("kernel version %q: %w", s, err)
	}
	return v, nil
}
