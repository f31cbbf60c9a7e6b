// Package namespace creates the namespaces of one machine and limits how many network
// namespaces the machine may have.
//
// Each machine costs one execution of the server's own program, which takes twice as
// long (4.4 instead of 2.3 ms) if it initializes all packages of the server first. So
// this package must import only strconv, strings and what package os imports anyway: the
// Go linker then initializes it before everything else that needs package os, and its
// init function exits.
package namespace

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Namespaces are the namespaces of a machine.
type Namespaces struct {
	User    *os.File
	Network *os.File // owned by User; nil if it was not requested
}

// Close closes the descriptors.
func (n Namespaces) Close() error {
	var errs []error
	for _, f := range []*os.File{n.User, n.Network} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Make creates a user namespace with the mapping ids and, if network is true, a network
// namespace owned by it. Namespaces can be opened only through a process. So Make starts
// the program traced, which stops it at its first instruction, opens its namespaces and
// kills it.
func Make(program string, network bool, ids []syscall.SysProcIDMap) (n Namespaces, err error) {
	runtime.LockOSThread() // the kernel's tracer is a thread, not a process
	defer runtime.UnlockOSThread()
	// Open the program here, because the new process cannot enter folders that
	// are closed to other users.
	file, err := os.Open(program)
	if err != nil {
		return n, err
	}
	defer func() { _ = file.Close() }()
	flags := uintptr(syscall.CLONE_NEWUSER)
	if network {
		flags |= syscall.CLONE_NEWNET
	}
	process, err := os.StartProcess(pathOf(file), []string{program}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags: flags, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return n, err
	}
	defer func() {
		_ = process.Kill() // until Wait reaps the process, its PID cannot be reused
		_, _ = process.Wait()
	}()
	folder := "/proc/" + strconv.Itoa(process.Pid) + "/ns/"
	if n.User, err = os.Open(folder + "user"); err == nil && network {
		n.Network, err = os.Open(folder + "net")
	}
	if err != nil {
		return Namespaces{}, errors.Join(err, n.Close())
	}
	return n, nil
}

// A Limited says what MakeLimited creates.
type Limited struct {
	Program string               // as for Make
	Network bool                 // as for Make
	ID      syscall.SysProcIDMap // the mapping of ids; it begins with root in the machine
	Max     int                  // how many network namespaces may exist in the user namespace and all below it
}

// MakeLimited is like Make, but creates the user namespace inside of another one with
// the same ids, which has the limit of network namespaces. A limit applies to all
// namespaces below, and root in a machine that may run Docker could raise that of its
// own user namespace.
func MakeLimited(l Limited) (n Namespaces, err error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return n, err
	}
	defer func() { _ = self.Close() }()
	file, err := os.Open(l.Program)
	if err != nil {
		return n, err
	}
	defer func() { _ = file.Close() }()
	theirInput, hold, err := os.Pipe()
	if err != nil {
		return n, err
	}
	defer func() { _ = hold.Close() }()
	reply, theirOutput, err := os.Pipe()
	if err != nil {
		return n, errors.Join(err, theirInput.Close())
	}
	defer func() { _ = reply.Close() }()
	ids := []syscall.SysProcIDMap{l.ID}
	process, err := os.StartProcess(pathOf(self), l.arguments(), &os.ProcAttr{
		Dir: "/", Env: []string{"GOMAXPROCS=1", "GOGC=off"},
		Files: []*os.File{theirInput, theirOutput, nil, file},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
			Credential: &syscall.Credential{},
		},
	})
	err = errors.Join(err, theirInput.Close(), theirOutput.Close())
	if err != nil {
		return n, err
	}
	n, err = take(process.Pid, reply)
	closed := hold.Close() // the process ends with its input
	_, waited := process.Wait()
	return n, errors.Join(err, closed, waited)
}

func pathOf(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// take opens the namespaces that the process pid announces on reply.
func take(pid int, reply *os.File) (n Namespaces, err error) {
	b := make([]byte, 4<<10)
	size, err := reply.Read(b) // the process writes once
	if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	words := strings.Fields(string(b[:size]))
	if len(words) < 2 || words[0] != announcement {
		return n, errors.New("create a user namespace: " + strings.TrimSpace(string(b[:size])))
	}
	for i, file := range []**os.File{&n.User, &n.Network}[:len(words)-1] {
		if *file, err = os.Open("/proc/" + strconv.Itoa(pid) + "/fd/" + words[i+1]); err != nil {
			return Namespaces{}, errors.Join(err, n.Close())
		}
	}
	return n, nil
}
