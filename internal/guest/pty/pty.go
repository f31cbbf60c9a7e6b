// Package pty opens terminals whose other end can be given up: a read there ends
// when the file is closed or has passed its deadline, though some process may
// hold the terminal open for ever. creack/pty leaves that end in blocking mode,
// where neither ends a read.
package pty

import (
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Size is a terminal's, in characters and, if a program should know, in pixels.
type Size = pty.Winsize

// Open opens a terminal of that size: its other end, and itself.
func Open(size Size) (end, terminal *os.File, err error) {
	blocking, terminal, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	end, err = pollable(blocking)
	if err == nil {
		if err = Resize(end, size); err == nil {
			return end, terminal, nil
		}
		_ = end.Close()
	}
	_ = terminal.Close()
	return nil, nil, err
}

// Start starts a command as the leader of a session on a new terminal, and
// returns the terminal's other end.
func Start(cmd *exec.Cmd, size Size) (*os.File, error) {
	end, terminal, err := Open(size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close() }() // the command has it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		_ = end.Close()
		return nil, err
	}
	return end, nil
}

// Resize changes the size of the terminal behind its other end; the programs on
// it are told.
func Resize(end *os.File, size Size) error {
	conn, err := end.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols, Xpixel: size.X, Ypixel: size.Y})
	})
	if err != nil {
		return err
	}
	return failed
}

// pollable has the runtime wait for a file, which it takes.
func pollable(f *os.File) (*os.File, error) {
	defer func() { _ = f.Close() }()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
