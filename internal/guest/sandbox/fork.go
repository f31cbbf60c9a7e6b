package sandbox

import (
	"errors"
	"os"
	"sync/atomic"
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
	put    *int32           // where the result goes too, if not nil
	passes [2]syscall.Errno // errors that do not matter
	path   bool             // it is about a path that the plan saw
	past   int              // where to go on if that has vanished or is out of reach, if not 0: there is nothing to do then
	what   string           // for the error
}

// program is a list of calls, with all that they point to.
type program struct {
	calls     []call
	saved     []uintptr
	keep      []any
	namespace [64]byte // where the child writes the name of its mount namespace
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

// planned says that the call is about a path that the plan saw.
func (c *call) planned() *call {
	c.path = true
	return c
}

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
	path bool // it was about a path that the plan saw
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

// moved reports whether the files have changed since they were planned for.
func (e *CallError) moved() bool {
	errno, ok := errors.AsType[syscall.Errno](e.Err)
	return ok && e.path && vanished(errno)
}

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

// vfork makes a child in this memory, on this stack, and returns twice, as
// clone does: first in the child, and in the parent when the child has become
// another program or ended. Copying the page tables of a Go program, and its
// pages as they are written to, takes longer than all of a sandbox's mounts.
func vfork(flags uintptr) (pid int, errno uintptr)

// birth is a child that has its namespaces, and waits for its program: the
// kernel makes the ones while we plan the other.
type birth struct {
	program *program // set before ready is
	ready   uint32   // 1 when the program is there
	parent  uintptr  // this process
	// What the child says of its failure: the call, and its error.
	failed int
	errno  syscall.Errno

	// Of the child, when done is closed: it has become another program, or ended.
	pid  int
	err  syscall.Errno // of making it
	done chan struct{}
}

// bear makes a child that waits. Until [birth.run] returns nothing may stop the
// world, which waits for the thread that the child sleeps on: no collection, no
// change of GOMAXPROCS, which has to be 2 or more.
func bear(flags uintptr) *birth {
	b := &birth{parent: uintptr(os.Getpid()), done: make(chan struct{})}
	go b.live(flags)
	return b
}

// live returns when the child has become another program or ended.
func (b *birth) live(flags uintptr) {
	syscall.ForkLock.Lock()
	b.pid, b.err = b.fork(flags)
	syscall.ForkLock.Unlock()
	close(b.done)
}

// run has the child make the program's calls, of which the last is its exec, and
// returns when it has.
func (b *birth) run(p *program) (pid int, err error) {
	b.program = p
	atomic.StoreUint32(&b.ready, 1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.ready)), futexWake, 1) // nobody may wait yet
	<-b.done
	return b.end()
}

// end says how it went.
func (b *birth) end() (pid int, err error) {
	if b.err != 0 {
		return 0, &CallError{What: "make namespaces", Err: b.err}
	}
	if b.errno == 0 {
		return b.pid, nil
	}
	reap(b.pid)
	failed := b.program.calls[b.failed]
	return 0, &CallError{What: failed.what, Err: b.errno, exec: failed.number == unix.SYS_EXECVE, path: failed.path}
}

// abandon ends a child that gets no program.
func (b *birth) abandon() {
	p := &program{}
	p.add("end", unix.SYS_EXIT_GROUP, 0)
	if pid, err := b.run(p); err == nil {
		reap(pid)
	}
}

// reap waits for the end of a child.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// start makes a child that makes the program's calls at once. It may be called
// where others use the runtime.
func (p *program) start(flags uintptr) (pid int, err error) {
	b := &birth{program: p, ready: 1, parent: uintptr(os.Getpid()), done: make(chan struct{})}
	b.live(flags)
	return b.end()
}

// Operations of futex on what only this memory has.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// fork is the child's whole life in this program. After the clone nothing may
// be allocated and no stack may grow: there are no other threads to help. The
// parent's thread sleeps until the child has become another program, and sees
// what it wrote. The child is killed when that thread ends; the runtime ends none
// but those that a goroutine has locked and left.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *birth) fork(flags uintptr) (pid int, errno syscall.Errno) {
	beforeFork()
	n, e := vfork(flags | uintptr(syscall.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK)
	if e != 0 || n != 0 {
		afterFork()
		return n, syscall.Errno(e)
	}
	afterForkInChild()
	_, _, _ = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if parent, _, _ := syscall.RawSyscall6(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0); parent != b.parent {
		exit() // it died before
	}
	for atomic.LoadUint32(&b.ready) == 0 {
		_, _, _ = syscall.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.ready)), futexWait, 0, 0, 0, 0)
	}
	calls, saved := b.program.calls, b.program.saved
	for i := 0; i < len(calls); i++ {
		c := &calls[i]
		for j := range c.from {
			if c.from[j] != 0 {
				c.args[j] = saved[c.from[j]]
			}
		}
		r, _, e := syscall.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if e != 0 && e != c.passes[0] && e != c.passes[1] {
			if c.past != 0 && (vanished(e) || e == syscall.EACCES) {
				i = c.past - 1
				continue
			}
			b.failed, b.errno = i, e
			exit()
		}
		if c.save != 0 {
			saved[c.save] = r
		}
		if c.put != nil {
			*c.put = int32(r)
		}
	}
	exit()
	return 0, 0
}

// exit ends the child.
//
//go:nosplit
func exit() {
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_EXIT_GROUP, 1, 0, 0, 0, 0, 0)
	}
}

// vanished reports whether an error says that a path is no longer what the plan
// saw: gone, or with a link or a file in its way.
//
//go:nosplit
func vanished(e syscall.Errno) bool {
	return e == syscall.ENOENT || e == syscall.ENOTDIR || e == syscall.ELOOP || e == syscall.ESTALE
}
