package namespace

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
)

// outerName is the name (argument 0) of the process of MakeLimited.
const outerName = "aloft-namespaces"

// announcement is the first word of what that process writes. Descriptors of the new
// namespaces follow. If it fails, it writes the error instead.
const announcement = "namespaces"

// init is all that the process of MakeLimited runs.
func init() {
	if len(os.Args) == 0 || os.Args[0] != outerName {
		return
	}
	if err := outer(os.Args[1:]); err != nil {
		_, _ = io.WriteString(os.Stdout, err.Error()) // nothing else can be told
		os.Exit(1)
	}
	os.Exit(0)
}

// arguments returns the arguments of the process, which outer reads.
func (l Limited) arguments() []string {
	return []string{outerName, strconv.FormatBool(l.Network), strconv.Itoa(l.ID.Size), strconv.Itoa(l.Max)}
}

// outer is the process of MakeLimited. It is in the outer user namespace. It announces
// the new namespaces on its standard output, and holds them until its standard input
// ends. Descriptor 3 is the program.
func outer(args []string) error {
	if len(args) != 3 {
		return errors.New("three arguments are needed")
	}
	network, err := strconv.ParseBool(args[0])
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/user/max_net_namespaces", []byte(args[2]), 0); err != nil {
		return err
	}
	n, err := Make("/proc/self/fd/3", network, []syscall.SysProcIDMap{{Size: size}})
	if err != nil {
		return err
	}
	line := announcement + " " + strconv.Itoa(int(n.User.Fd()))
	if n.Network != nil {
		line += " " + strconv.Itoa(int(n.Network.Fd()))
	}
	if _, err := io.WriteString(os.Stdout, line); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, n.Close())
}
