// Package pty opens pseudo-terminals whose master file can be abandoned: a read from the
// master returns when it is closed or its deadline has passed, even if some process
// keeps the terminal open forever. creack/pty leaves the master in blocking mode, where
// neither ends a read.
package pty

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// Size is a terminal's size in characters and, optionally, in pixels.
type Size = pty.Winsize

// Open opens a terminal of that size. end is the terminal's master file.
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

// Start starts a command as session leader on a new terminal, and returns the
// terminal's master side.
func Start(cmd *exec.Cmd, size Size) (*os.File, error) {
	end, terminal, err := Open(size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = terminal.Close() }() // the command has its own copy
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		_ = end.Close()
		return nil, err
	}
	return end, nil
}

// Copy copies the output of programs on a terminal or a pipe to w, until no process has
// it open. If w fails, Copy closes end. Once ended is closed, Copy returns after copying
// the output so far, because a background process may keep the terminal open forever.
func Copy(w io.Writer, end *os.File, ended <-chan struct{}) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-ended:
			_ = end.SetReadDeadline(time.Now()) // if this fails, close the file
		case <-done:
		}
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := end.Read(b)
		if n > 0 {
			if _, err := w.Write(b[:n]); err != nil {
				_ = end.Close() // the programs get an error or a signal
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			Rest(w, end)
		}
		if err != nil { // EIO: no process has the terminal open
			return
		}
	}
}

// maxRest is the maximum number of bytes that Copy reads after a program has ended.
// Without it, another program that keeps printing would block Copy. The buffer of a
// terminal is smaller, and by default so is that of a pipe.
const maxRest = 1 << 20

// Rest copies what has been written to a terminal or a pipe so far, without
// waiting. It ignores the file's deadline.
func Rest(w io.Writer, end *os.File) {
	conn, err := end.SyscallConn()
	if err != nil {
		return // the file is closed
	}
	b := make([]byte, 32<<10)
	for left := maxRest; left > 0; {
		var n int
		var failed error
		if conn.Control(func(fd uintptr) { n, failed = unix.Read(int(fd), b[:min(len(b), left)]) }) != nil {
			return
		}
		if errors.Is(failed, unix.EINTR) {
			continue
		}
		if failed != nil || n <= 0 { // EAGAIN: no more data now
			return
		}
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		left -= n
	}
}

// Resize sets the size of the terminal, given its master side; programs on it
// get a SIGWINCH.
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

// pollable makes the runtime poll the file, and takes ownership of it.
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
