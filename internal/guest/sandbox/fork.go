package sandbox

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call of a child between its birth and its exec.
type call struct {
	number uintptr
	args   [6]uintptr
	from   [6]uint16        // if not 0, the argument is the result that was saved there
	save   uint16           // where the result goes, if not 0
	passes [2]syscall.Errno // errors that do not matter
	what   string           // for the error
}

// program is a list of calls, with all that they point to.
type program struct {
	calls []call
	saved []uintptr
	keep  []any
}

// result names a result that is saved for later calls.
type result uint16

// add appends a call. An argument is a number, a string, a pointer, or an
// earlier call's result.
func (p *program) add(what string, number uintptr, args ...any) *call {
	c := call{number: number, what: what}
	for i, a := range args {
		switch a := a.(type) {
		case int:
			c.args[i] = uintptr(a)
		case uintptr:
			c.args[i] = a
		case uint64:
			c.args[i] = uintptr(a)
		case string:
			b := append([]byte(a), 0)
			p.keep = append(p.keep, b)
			c.args[i] = uintptr(unsafe.Pointer(&b[0]))
		case []byte:
			p.keep = append(p.keep, a)
			c.args[i] = uintptr(unsafe.Pointer(&a[0]))
		case unsafe.Pointer:
			p.keep = append(p.keep, a)
			c.args[i] = uintptr(a)
		case result:
			c.from[i] = uint16(a)
		}
	}
	p.calls = append(p.calls, c)
	return &p.calls[len(p.calls)-1]
}

// but says which errors of a call do not matter.
func (c *call) but(errnos ...syscall.Errno) { copy(c.passes[:], errnos) }

// result has the call's result saved.
func (p *program) result(c *call) result {
	if len(p.saved) == 0 {
		p.saved = append(p.saved, 0)
	}
	p.saved = append(p.saved, 0)
	c.save = uint16(len(p.saved) - 1)
	return result(c.save)
}

// CallError is a step of the way into the sandbox that failed.
type CallError struct {
	What string
	Err  error
	exec bool
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

// Unwrap returns the errno.
func (e *CallError) Unwrap() error { return e.Err }

// These keep the runtime's own signals away from a child that has only one of
// its threads; gVisor uses them the same way.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// report is what a child says of its failure: the call, and its error.
var report [2]uint32

// start makes a child that makes the program's calls, of which the last is its
// exec, and returns when it has. The thread that calls it has to be locked and
// to last as long as the child, which is killed at its death.
func (p *program) start(flags uintptr) (pid int, err error) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return 0, err
	}
	defer func() { _, _ = unix.Close(pipe[0]), unix.Close(pipe[1]) }()
	syscall.ForkLock.Lock()
	n, errno := p.fork(flags, uintptr(pipe[1]))
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(p)
	if errno != 0 {
		return 0, &CallError{What: "make namespaces", Err: errno}
	}
	var said [8]byte
	if got, _ := unix.Read(pipe[0], said[:]); got < len(said) {
		return n, nil
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(n, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	at, code := *(*uint32)(unsafe.Pointer(&said[0])), *(*uint32)(unsafe.Pointer(&said[4]))
	if int(at) >= len(p.calls) {
		return 0, fmt.Errorf("the child failed at step %d with error %d", at, code)
	}
	return 0, &CallError{What: p.calls[at].what, Err: syscall.Errno(code), exec: p.calls[at].number == unix.SYS_EXECVE}
}

// fork is the child's whole life in this program. After the clone nothing may
// be allocated and no stack may grow: there are no other threads to help. The
// parent's thread sleeps until the child has become another program.
//
//go:noinline
//go:norace
//go:nocheckptr
func (p *program) fork(flags, pipe uintptr) (pid int, errno syscall.Errno) {
	calls, saved := p.calls, p.saved
	beforeFork()
	n, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, flags|uintptr(syscall.SIGCHLD)|unix.CLONE_VFORK, 0, 0, 0, 0, 0)
	if errno != 0 || n != 0 {
		afterFork()
		return int(n), errno
	}
	afterForkInChild()
	for i := range calls {
		c := &calls[i]
		for j := range c.from {
			if c.from[j] != 0 {
				c.args[j] = saved[c.from[j]]
			}
		}
		r, _, e := syscall.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if e != 0 && e != c.passes[0] && e != c.passes[1] {
			report[0], report[1] = uint32(i), uint32(e)
			syscall.RawSyscall6(syscall.SYS_WRITE, pipe, uintptr(unsafe.Pointer(&report)), 8, 0, 0, 0)
			for {
				syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
			}
		}
		if c.save != 0 {
			saved[c.save] = r
		}
	}
	for {
		syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}
