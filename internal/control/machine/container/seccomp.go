package container

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// seccompRules is the default profile of Docker, from the module
// github.com/moby/profiles/seccomp v0.1.0, under the Apache License 2.0,
// unchanged. Its rules depend on the processor, the kernel and the capabilities.
//
//go:embed seccomp.json
var seccompRules []byte

type seccompFile struct {
	DefaultAction   specs.LinuxSeccompAction `json:"defaultAction"`
	DefaultErrnoRet *uint                    `json:"defaultErrnoRet"`
	ArchMap         []struct {
		Architecture     specs.Arch   `json:"architecture"`
		SubArchitectures []specs.Arch `json:"subArchitectures"`
	} `json:"archMap"`
	Syscalls []struct {
		specs.LinuxSyscall
		Includes seccompCondition `json:"includes"`
		Excludes seccompCondition `json:"excludes"`
	} `json:"syscalls"`
}

type seccompCondition struct {
	Caps      []string `json:"caps"`
	Arches    []string `json:"arches"`
	MinKernel string   `json:"minKernel"`
}

var seccompArch = map[string]specs.Arch{
	"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64, "riscv64": specs.ArchRISCV64, "s390x": specs.ArchS390X,
}

// seccompProfile picks the rules that hold for a processor, a kernel (major and
// minor version) and a set of capabilities.
func seccompProfile(arch string, kernel [2]int, caps []string) (*specs.LinuxSeccomp, error) {
	var file seccompFile
	if err := json.Unmarshal(seccompRules, &file); err != nil {
		return nil, fmt.Errorf("seccomp profile: %w", err)
	}
	native, ok := seccompArch[arch]
	if !ok {
		return nil, fmt.Errorf("seccomp profile: no rules for processor %s", arch)
	}
	p := &specs.LinuxSeccomp{DefaultAction: file.DefaultAction, DefaultErrnoRet: file.DefaultErrnoRet}
	for _, a := range file.ArchMap {
		if a.Architecture == native {
			// x32 is left out: no program uses it, and every architecture adds
			// milliseconds to the start of each machine.
			sub := slices.DeleteFunc(a.SubArchitectures, func(a specs.Arch) bool { return a == specs.ArchX32 })
			p.Architectures = append([]specs.Arch{native}, sub...)
		}
	}
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

// What the kernel calls them.
const (
	cloneNewUser     = 0x10000000
	familyNetlink    = 16
	familyPacket     = 17
	netlinkNetfilter = 12
)

// sandboxCalls are what a machine's own sandbox mounts with. Outside of a user
// namespace the kernel refuses them to who has no CAP_SYS_ADMIN, as in a machine
// nobody has.
var sandboxCalls = []string{"mount", "umount2", "open_tree", "move_mount", "mount_setattr", "fsopen", "fsconfig", "fsmount"}

// allowSandbox lets a machine make user namespaces, which the sandbox around
// single commands stands on, for the agent's user. That opens parts of the
// kernel that were closed: mounting, and the network's configuration. What of
// these has cost kernels most, the packet filter, is closed for it to
// everybody in the machine, with the rarer kinds of sockets.
func allowSandbox(p *specs.LinuxSeccomp) {
	equal := func(index uint, value uint64) specs.LinuxSeccompArg {
		return specs.LinuxSeccompArg{Index: index, Value: value, Op: specs.OpEqualTo}
	}
	allow := func(names []string, args ...specs.LinuxSeccompArg) {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args})
	}
	p.Syscalls = slices.DeleteFunc(p.Syscalls, func(rule specs.LinuxSyscall) bool { return slices.Equal(rule.Names, []string{"socket"}) })
	allow([]string{"socket"}, specs.LinuxSeccompArg{Index: 0, Value: familyNetlink, Op: specs.OpLessThan})
	allow([]string{"socket"}, equal(0, familyNetlink), specs.LinuxSeccompArg{Index: 2, Value: netlinkNetfilter, Op: specs.OpNotEqual})
	allow([]string{"socket"}, equal(0, familyPacket))
	allow([]string{"clone"}, specs.LinuxSeccompArg{Index: 0, Value: cloneNewUser, ValueTwo: cloneNewUser, Op: specs.OpMaskedEqual})
	allow(sandboxCalls)
}

// kernelAtLeast compares with a version like "4.8"; "" is older than all.
func kernelAtLeast(kernel [2]int, least string) (bool, error) {
	if least == "" {
		return true, nil
	}
	v, err := parseKernel(least)
	if err != nil {
		return false, err
	}
	return kernel[0] > v[0] || kernel[0] == v[0] && kernel[1] >= v[1], nil
}

func parseKernel(s string) (v [2]int, err error) {
	if _, err := fmt.Sscanf(s, "%d.%d", &v[0], &v[1]); err != nil {
		return v, fmt.Errorf("kernel version %q: %w", s, err)
	}
	return v, nil
}
