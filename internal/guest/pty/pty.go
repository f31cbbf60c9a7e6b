// Package pty opens terminals whose other end can be given up: a read there ends
// when the file is closed or has passed its deadline, though some process may
// hold the terminal open for ever. creack/pty leaves that end in blocking mode,
// where neither ends a read.
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

// Copy copies what programs print on a terminal or into a pipe, until no process has
// it open any more, or w fails, which closes it. Once ended is closed it goes on with
// what was printed before, and then returns: a process that was left behind may hold
// it open for ever.
func Copy(w io.Writer, end *os.File, ended <-chan struct{}) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-ended:
			_ = end.SetReadDeadline(time.Now()) // it is closed, if that fails
		case <-done:
		}
	}()
	b := make([]byte, 32<<10)
	for {
		n, err := end.Read(b)
		if n > 0 {
			if _, err := w.Write(b[:n]); err != nil {
				_ = end.Close() // the programs hear of it
				return
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			Rest(w, end)
		}
		if err != nil { // EIO: nobody has the terminal open any more
			return
		}
	}
}

// maxRest bounds, in bytes, what is left to read of a program that has ended, so
// that another that goes on printing holds nobody up. The kernel keeps less of a
// terminal and, unless it is told to, of a pipe.
const maxRest = 1 << 20

// Rest copies what was written into a terminal or a pipe until now, and waits for
// nothing; the file's deadline does not count.
func Rest(w io.Writer, end *os.File) {
	conn, err := end.SyscallConn()
	if err != nil {
		return // it is closed
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
		if failed != nil || n <= 0 { // EAGAIN: there is nothing now
			return
		}
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		left -= n
	}
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
