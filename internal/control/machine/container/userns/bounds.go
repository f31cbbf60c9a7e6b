package userns

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxNetworks is how many network namespaces a machine may have. The kernel charges
// less than half of a network namespace's memory to the cgroup of its creator: 90 of
// 210 KB on Linux 6.18. Each browser, each container and each command in the sandbox
// has one.
const maxNetworks = 1024

// bounderName is the name (argument 0) of the process that creates a machine's
// namespaces.
const bounderName = "aloft-namespaces"

// This is all that such a process runs, before the larger packages of the program are
// initialized.
func init() {
	if os.Args[0] != bounderName {
		return
	}
	if err := bound(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // nothing else can be told
		os.Exit(1)
	}
	os.Exit(0)
}

// makeBounded is like makeNamespaces, but creates the user namespace inside of
// another one with the same ids, which has the limits of the machine's namespaces.
// A limit applies to all namespaces below, and root in a machine that may run Docker
// could raise those of its own user namespace.
func makeBounded(program string, flags uintptr, ids []syscall.SysProcIDMap) (spaces [2]*os.File, err error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return spaces, err
	}
	defer func() { _ = self.Close() }()
	file, err := os.Open(program)
	if err != nil {
		return spaces, err
	}
	defer func() { _ = file.Close() }()
	var failure strings.Builder
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", self.Fd())) //nolint:noctx // it ends with its standard input
	cmd.Args = []string{bounderName, strconv.FormatUint(uint64(flags), 10), strconv.Itoa(ids[0].Size)}
	cmd.Env, cmd.Dir, cmd.Stderr, cmd.ExtraFiles = []string{}, "/", &failure, []*os.File{file}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return spaces, err
	}
	reply, err := cmd.StdoutPipe()
	if err != nil {
		return spaces, errors.Join(err, hold.Close())
	}
	if err := cmd.Start(); err != nil {
		return spaces, err
	}
	line, readErr := bufio.NewReader(reply).ReadString('\n')
	if readErr == nil {
		for i, fd := range strings.Fields(line) {
			if spaces[i], err = os.Open(fmt.Sprintf("/proc/%d/fd/%s", cmd.Process.Pid, fd)); err != nil {
				break
			}
		}
	}
	err = errors.Join(err, hold.Close(), cmd.Wait())
	if err == nil && readErr != nil {
		err = readErr
	}
	if err != nil && failure.Len() > 0 {
		err = errors.New(strings.TrimSpace(failure.String()))
	}
	return spaces, err
}

// bound is the process of makeBounded. It is in the outer user namespace. It writes
// the numbers of its descriptors of the new namespaces, and holds them until its
// standard input ends.
func bound(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	flags, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/user/max_net_namespaces", []byte(strconv.Itoa(maxNetworks)), 0); err != nil {
		return err
	}
	const program = "/proc/self/fd/3" // of ExtraFiles
	spaces, err := makeNamespaces(program, uintptr(flags), []syscall.SysProcIDMap{{Size: size}})
	if err != nil {
		return err
	}
	line := ""
	for _, f := range spaces {
		if f != nil {
			line += strconv.Itoa(int(f.Fd())) + " "
		}
	}
	if _, err := fmt.Fprintln(os.Stdout, line); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
