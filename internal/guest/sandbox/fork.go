package sandbox

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is one system call that a child makes between its creation and its exec.
type call struct {
	number uintptr
	args   [6]uintptr
	from   [6]uint16        // for each argument: if not 0, the saved result to pass instead
	save   uint16           // where to save the result, if not 0
	put    *int32           // if not nil, where to store the result, too
	passes [2]syscall.Errno // errors to ignore
	path   bool             // the call opens a path that the plan contains
	past   int              // if not 0, index of the call at which to continue if the path has vanished or is not accessible
	what   string           // for error messages
}

// program is a list of calls, with the data that they point to.
type program struct {
	calls     []call
	saved     []uintptr
	keep      []any
	namespace [64]byte // where the child writes the name of its mount namespace
}

// result identifies a saved result, for use by later calls.
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

// ignore makes the child ignore these errors of the call.
func (c *call) ignore(errnos ...syscall.Errno) { copy(c.passes[:], errnos) }

// planned marks a call on a path that the plan contains.
func (c *call) planned() *call {
	c.path = true
	return c
}

// result saves the call's result.
func (p *program) result(c *call) result {
	if len(p.saved) == 0 {
		p.saved = append(p.saved, 0)
	}
	p.saved = append(p.saved, 0)
	c.save = uint16(len(p.saved) - 1)
	return result(c.save)
}

// CallError is a system call that failed while the child set up the sandbox.
type CallError struct {
	What string
	Err  error
	exec bool
	path bool // the call opened a path that the plan contains
}

func (e *CallError) Error() string { return e.What + ": " + e.Err.Error() }

// moved reports whether the files have changed since the plan was made.
func (e *CallError) moved() bool {
	errno, ok := errors.AsType[syscall.Errno](e.Err)
	return ok && e.path && isMissing(errno)
}

// Unwrap returns the errno.
func (e *CallError) Unwrap() error { return e.Err }

// beforeFork and its counterparts block the Go runtime's signals, because the child has
// only one of the runtime's threads. gVisor uses them in the same way.
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// vfork creates a child that shares this memory and stack. Like clone it
// returns twice: first in the child, then in the parent, when the child has
// called exec or exited. Copying the page tables and modified pages of a Go
// program, as fork does, would take longer than all of the sandbox's mounts.
func vfork(flags uintptr) (pid int, errno uintptr)

// child is a created child in its namespaces, which waits for its program. The
// kernel creates the namespaces while the parent makes the plan.
type child struct {
	program *program // set before ready is
	ready   uint32   // 1 once program is set
	parent  uintptr  // process id of the parent
	// The index of the call that failed in the child, and the call's error.
	failed int
	errno  syscall.Errno

	// Set when done is closed, after the child has called exec or exited.
	pid  int
	err  syscall.Errno // error of creating the child
	done chan struct{}
}

// startChild creates a child that waits. Until [birth.run] returns, nothing may stop
// the world (no garbage collection, no change of GOMAXPROCS), because that
// would wait for the thread on which the child sleeps. GOMAXPROCS must be at
// least 2.
func startChild(flags uintptr) *child {
	b := &child{parent: uintptr(os.Getpid()), done: make(chan struct{})}
	go b.waitExec(flags)
	return b
}

// waitExec returns when the child has called exec or exited.
func (b *child) waitExec(flags uintptr) {
	syscall.ForkLock.Lock()
	b.pid, b.err = b.fork(flags)
	syscall.ForkLock.Unlock()
	close(b.done)
}

// run makes the child run the program's calls, the last of which is its exec. It returns
// when the child has called exec or exited.
func (b *child) run(p *program) (pid int, err error) {
	b.program = p
	atomic.StoreUint32(&b.ready, 1)
	_, _, _ = unix.Syscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&b.ready)), futexWake, 1) // the child may not be waiting yet
	<-b.done
	return b.end()
}

// end returns the child's process id, or the error of the call that failed.
func (b *child) end() (pid int, err error) {
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

// abandon makes a child exit that never received a program.
func (b *child) abandon() {
	p := &program{}
	p.add("end", unix.SYS_EXIT_GROUP, 0)
	if pid, err := b.run(p); err == nil {
		reap(pid)
	}
}

// reap waits for a child to exit.
func reap(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

// start creates a child that runs the program's calls at once. Other goroutines
// may run meanwhile.
func (p *program) start(flags uintptr) (pid int, err error) {
	b := &child{program: p, ready: 1, parent: uintptr(os.Getpid()), done: make(chan struct{})}
	b.waitExec(flags)
	return b.end()
}

// Futex operations on memory that is private to this process.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// fork clones the process and runs the child's calls. After the clone, the child must
// not allocate memory or grow its stack: the runtime's other threads, which would be
// needed for that, do not exist in the child. The parent's thread sleeps until the child
// has called exec or exited, and then sees what the child wrote. The kernel kills the
// child if that thread exits. The Go runtime does not end the thread, unless a goroutine
// exits with the thread locked.
//
//go:noinline
//go:norace
//go:nocheckptr
func (b *child) fork(flags uintptr) (pid int, errno syscall.Errno) {
	beforeFork()
	n, e := vfork(flags | uintptr(syscall.SIGCHLD) | unix.CLONE_VM | unix.CLONE_VFORK)
	if e != 0 || n != 0 {
		afterFork()
		return n, syscall.Errno(e)
	}
	afterForkInChild()
	_, _, _ = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if parent, _, _ := syscall.RawSyscall6(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0); parent != b.parent {
		exit() // the parent died before the call above
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
			if c.past != 0 && (isMissing(e) || e == syscall.EACCES) {
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

// isMissing reports whether an error means that a path has changed since the
// plan was made: it was removed, or replaced by a link or a file.
//
//go:nosplit
func isMissing(e syscall.Errno) bool {
	return e == syscall.ENOENT || e == syscall.ENOTDIR || e == syscall.ELOOP || e == syscall.ESTALE
}
