package shell

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// buffers are reused for reading from pipes.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// stream is one output of a command. It is a named pipe, whose path is removed
// when bash has opened it.
type stream struct {
	path string
	r    *os.File
	w    *os.File // kept open so that there is no EOF before bash opens the pipe
	idle chan struct{}
}

func openStream(path string) (*stream, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("shell: make pipe: %w", err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("shell: %w", err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("shell: %w", err)
	}
	return &stream{path: path, r: r, w: w, idle: make(chan struct{})}, nil
}

// copy reads until drain stops it.
func (s *stream) copy(take func([]byte)) {
	defer close(s.idle)
	s.read(take)
}

func (s *stream) read(take func([]byte)) {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := s.r.Read(buf[:])
		if n > 0 {
			take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// drain reads only what is in the pipe right now, so that it returns even if a
// background process keeps writing. held reports whether a process still has the pipe
// open.
func (s *stream) drain(take func([]byte)) (held bool) {
	_ = s.w.Close()
	_ = s.r.SetReadDeadline(time.Unix(1, 0)) // makes copy return
	<-s.idle
	raw, err := s.r.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		waiting, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		if err != nil {
			return
		}
		buf := buffers.Get().(*[64 << 10]byte)
		defer buffers.Put(buf)
		for {
			n, err := syscall.Read(int(fd), buf[:])
			switch {
			case err == syscall.EINTR:
				continue
			case err != nil: // EAGAIN: empty, but a process could still write
				held = true
				return
			case n == 0:
				return
			}
			take(buf[:n])
			if waiting -= n; waiting < 0 {
				held = true
				return
			}
		}
	})
	return held
}

// resume continues to read the stream until ctx ends.
func (s *stream) resume(ctx context.Context) (stop func() bool) {
	_ = s.r.SetReadDeadline(time.Time{})
	return context.AfterFunc(ctx, func() { _ = s.r.SetReadDeadline(time.Unix(1, 0)) })
}

func (s *stream) close() {
	_ = s.w.Close() // closed already, unless the command did not run
	_ = s.r.Close()
}
