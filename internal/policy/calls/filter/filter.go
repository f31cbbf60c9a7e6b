// Package filter compiles the seccomp filters of the sandbox, of the egress process and
// of confined programs. go test ./internal/policy/calls/filter -update writes their code
// for each architecture, and internal/guest/sandbox, internal/control/egress and
// internal/control/confine embed it. So nothing needs compiling when a command starts.
// No program links this package.
package filter

import (
	"fmt"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"aloft/internal/policy/calls"
)

// A Filter refuses system calls. A process with several filters must pass all.
type Filter struct {
	Name    string
	Refused []string // refused with EPERM, regardless of arguments
	Absent  []string // refused with ENOSYS, so that libraries use an older call
	Judged  []Judged
}

// Judged is a call that is allowed or refused by its arguments. The first matching test
// counts; if none matches, the rest of the filter decides.
type Judged struct {
	Call  string
	Tests []Test
}

// Test compares arguments. All parts must match. Only the low 32 bits are compared,
// since the kernel ignores the high bits.
type Test struct {
	Parts  []Part
	Refuse bool
}

// Part is one comparison: (argument & Mask) must be one of Values or, if Values is
// empty, must not be zero.
type Part struct {
	Argument int
	Mask     uint32
	Values   []uint32
}

const all = 0xffffffff

// newTime is a flag of unshare only.
const newTime = unix.CLONE_NEWTIME

// Filters lists all filters.
var Filters = []Filter{
	{
		Name:    "always",
		Refused: calls.RefusedTo(calls.Sandbox),
		Absent:  []string{"clone3"}, // the flags of clone3 are in memory, where a filter cannot see them
		Judged: []Judged{
			{"clone", []Test{{Parts: []Part{{0, calls.Namespaces, nil}}, Refuse: true}}},
			{"unshare", []Test{{Parts: []Part{{0, calls.Namespaces | newTime, nil}}, Refuse: true}}},
			{"ioctl", []Test{{Parts: []Part{{1, all, []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS}}}, Refuse: true}}},
			// A process may change its own limits, but not those of the same user's processes
			// outside. Landlock does not prevent that.
			{"prlimit64", []Test{{Parts: []Part{{0, all, nil}}, Refuse: true}}},
			{"socketpair", []Test{{Parts: []Part{{0, all, []uint32{unix.AF_UNIX}}}}, {Refuse: true}}},
			{"socket", sockets(calls.Sandbox)},
		},
	},
	{Name: "no_inet", Judged: []Judged{{"socket", []Test{{Parts: []Part{{0, all, []uint32{unix.AF_INET, unix.AF_INET6}}}, Refuse: true}}}}},
	{Name: "no_unix", Judged: []Judged{{"socket", []Test{{Parts: []Part{{0, all, []uint32{unix.AF_UNIX}}}, Refuse: true}}}}},
	{Name: "no_ptrace", Refused: []string{"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"}},
	// gVisor allows changing attributes through a read-only mount.
	{Name: "no_xattr", Refused: []string{"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"}},
	{
		Name:    "egress",
		Refused: calls.RefusedTo(calls.Egress),
		Absent:  []string{"clone3"},
		Judged: []Judged{
			// Threads may be started, but not processes.
			{"clone", []Test{{Parts: []Part{{0, calls.Namespaces, nil}}, Refuse: true}, {Parts: []Part{{0, unix.CLONE_THREAD, []uint32{0}}}, Refuse: true}}},
			{"socketpair", []Test{{Parts: []Part{{0, all, []uint32{unix.AF_UNIX}}}}, {Refuse: true}}},
			{"socket", sockets(calls.Egress)},
		},
	},
	{
		Name:    "confined",
		Refused: calls.RefusedTo(calls.Confined),
		Absent:  []string{"clone3"},
		Judged: []Judged{
			// The program is started after the filter is installed, in a new PID namespace. It
			// cannot create another PID namespace, since it lacks the capability for that.
			{"clone", []Test{{Parts: []Part{{0, calls.Namespaces &^ unix.CLONE_NEWPID, nil}}, Refuse: true}}},
			{"ioctl", []Test{{Parts: []Part{{1, all, []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCCONS}}}, Refuse: true}}},
			// The program is started traced. These requests do not read or change another
			// process.
			{"ptrace", []Test{{Parts: []Part{{0, all, []uint32{unix.PTRACE_TRACEME, unix.PTRACE_DETACH}}}}, {Refuse: true}}},
			{"socketpair", []Test{{Parts: []Part{{0, all, []uint32{unix.AF_UNIX}}}}, {Refuse: true}}},
			{"socket", sockets(calls.Confined)},
		},
	},
}

// EmbeddedBy names the filters that each package embeds.
var EmbeddedBy = map[string][]string{
	"internal/guest/sandbox":   {"always", "no_inet", "no_unix", "no_ptrace", "no_xattr"},
	"internal/control/egress":  {"egress"},
	"internal/control/confine": {"no_inet", "no_unix", "confined"},
}

// sockets returns the tests of the call socket for a kind of process.
func sockets(p calls.Process) (tests []Test) {
	values := func(list []int) (out []uint32) {
		for _, v := range list {
			out = append(out, uint32(v))
		}
		return out
	}
	for _, s := range calls.SocketsOf(p) {
		t := Test{Parts: []Part{{0, all, []uint32{uint32(s.Family)}}}}
		if s.Types != nil {
			t.Parts = append(t.Parts, Part{1, calls.TypeMask, values(s.Types)})
		}
		if s.Protocols != nil {
			t.Parts = append(t.Parts, Part{2, all, values(s.Protocols)})
		}
		tests = append(tests, t)
	}
	return append(tests, Test{Refuse: true})
}

// Architectures are keyed by GOARCH.
var Architectures = map[string]*arch.Info{"amd64": arch.X86_64, "arm64": arch.AARCH64}

const (
	eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// Offsets in seccomp_data.
const (
	numberAt       = 0
	architectureAt = 4
	argumentsAt    = 16 // eight bytes for each argument, low half first
)

// Compile returns the code of a filter. It skips a call that this architecture lacks,
// and returns an error for a call that no architecture has.
func (f Filter) Compile(on *arch.Info) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: architectureAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(on.ID), SkipTrue: 1},
		bpf.RetConstant{Val: enosys}, // 32-bit calls on a 64-bit kernel
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: uint32(arch.X32.SeccompMask), SkipTrue: 1},
		bpf.RetConstant{Val: enosys}, // x32, which only amd64 has
	}
	for _, j := range f.Judged {
		number, ok := on.SyscallNames[j.Call]
		if !ok {
			return nil, fmt.Errorf("%s: %s has no call %s", f.Name, on.Name, j.Call)
		}
		var body []bpf.Instruction
		for _, t := range j.Tests {
			body = append(body, t.compile()...)
		}
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(number), SkipTrue: uint8(len(body) + 1)})
		program = append(program, body...)
		program = append(program, bpf.LoadAbsolute{Off: numberAt, Size: 4})
	}
	plain := seccomp.NewProgram()
	for _, group := range []struct {
		calls  []string
		action seccomp.Action
	}{{f.Refused, seccomp.Action(eperm)}, {f.Absent, seccomp.Action(enosys)}} {
		var numbers []uint32
		for _, name := range group.calls {
			number, ok := on.SyscallNames[name]
			if _, somewhere := arch.X86_64.SyscallNames[name]; !ok && !somewhere {
				return nil, fmt.Errorf("%s: there is no call %s", f.Name, name)
			}
			if ok {
				numbers = append(numbers, uint32(number))
			}
		}
		if len(numbers) == 0 {
			continue
		}
		matched, end := plain.NewLabel(), plain.NewLabel()
		for i, n := range numbers {
			seccomp.SyscallWithConditions{Num: n}.Assemble(&plain, i < len(numbers)-1, matched, end)
		}
		plain.SetLabel(matched)
		plain.Ret(group.action)
		plain.SetLabel(end)
	}
	plain.Ret(seccomp.ActionAllow)
	rest, err := plain.Assemble()
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(append(program, rest...))
}

// compile returns code for the test. If the test matches, the code refuses the call if
// Refuse is set, and otherwise continues with the list of refused calls. If the test
// does not match, the code falls through.
func (t Test) compile() []bpf.Instruction {
	verdict := bpf.Instruction(bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW})
	if t.Refuse {
		verdict = bpf.RetConstant{Val: eperm}
	}
	code := []bpf.Instruction{verdict}
	for i := len(t.Parts) - 1; i >= 0; i-- {
		p := t.Parts[i]
		rest := uint8(len(code))
		var part []bpf.Instruction
		for n := len(p.Values) - 1; n >= 0; n-- {
			fail := uint8(0)
			if n == len(p.Values)-1 {
				fail = rest
			}
			part = append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: p.Values[n], SkipTrue: uint8(len(part)), SkipFalse: fail}}, part...)
		}
		if len(p.Values) == 0 {
			part = []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipFalse: rest}}
		}
		load := []bpf.Instruction{bpf.LoadAbsolute{Off: uint32(argumentsAt + 8*p.Argument), Size: 4}}
		if p.Mask != all {
			load = append(load, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: p.Mask})
		}
		code = append(append(load, part...), code...)
	}
	return code
}
