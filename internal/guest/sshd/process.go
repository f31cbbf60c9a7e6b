package sshd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"aloft/internal/guest/pty"
	"aloft/internal/redact"
)

// quiet is how long the output of a command that has ended may be silent
// before it counts as whole: a process in the background may hold it open for
// ever.
const quiet = 200 * time.Millisecond

// noStart is the exit status of what could not be started, as shells have it.
const noStart = 127

// start starts the command; running counts what belongs to it. Its status is
// told, and the channel closed, when it has ended and its output is out.
func (s *visit) start(cmd *exec.Cmd, running *sync.WaitGroup) {
	var err error
	if s.term != nil {
		err = s.startOnTerminal(cmd, running)
	} else {
		err = s.startOnPipes(cmd, running)
	}
	if err != nil {
		s.c.s.log.Warn("ssh command cannot be started", "err", err)
		fmt.Fprintf(s.ch.Stderr(), "%v\r\n", err)
		s.tellStatus(noStart)
		_ = s.ch.Close()
	}
}

// startOnTerminal runs the command on a terminal of its own, as the leader of
// a session.
func (s *visit) startOnTerminal(cmd *exec.Cmd, running *sync.WaitGroup) error {
	s.mu.Lock() // the client may change the terminal's size meanwhile
	defer s.mu.Unlock()
	master, slave, err := pty.Open(s.term.size)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { _ = slave.Close() }() // the command has it
	cmd.Env = append(cmd.Env, "SSH_TTY="+slave.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, master.Close())
	}
	s.process, s.term.file = cmd.Process, master
	running.Go(func() {
		_, _ = io.Copy(master, s.ch)
		// The client has said its last: control-D on an empty line.
		_, _ = master.Write([]byte{4})
	})
	running.Go(func() {
		out := make(chan struct{})
		go func() {
			defer close(out)
			seen := redact.NewLive(s.ch, s.c.s.cfg.Secrets)
			drain(seen, master) // ends by an error once no process has the terminal
			_ = seen.Close()    // the client has left, if that fails
		}()
		err := cmd.Wait()
		s.ended(err, out, master)
		_ = master.Close()
	})
	return nil
}

// startOnPipes runs the command on pipes, as the leader of a process group.
func (s *visit) startOnPipes(cmd *exec.Cmd, running *sync.WaitGroup) error {
	var ours, theirs [3]*os.File
	closeAll := func(files []*os.File) {
		for _, f := range files {
			if f != nil {
				_ = f.Close()
			}
		}
	}
	for i := range ours {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours[:])
			closeAll(theirs[:])
			return err
		}
		ours[i], theirs[i] = r, w
		if i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs[0], theirs[1], theirs[2]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.mu.Lock()
	err := cmd.Start()
	if err == nil {
		s.process = cmd.Process
	}
	s.mu.Unlock()
	closeAll(theirs[:])
	if err != nil {
		closeAll(ours[:])
		return err
	}
	running.Go(func() {
		_, _ = io.Copy(ours[0], s.ch)
		_ = ours[0].Close()
	})
	running.Go(func() {
		out := make(chan struct{})
		go func() {
			defer close(out)
			var both sync.WaitGroup
			for to, from := range map[io.Writer]*os.File{s.ch: ours[1], s.ch.Stderr(): ours[2]} {
				both.Go(func() { s.pass(to, from) })
			}
			both.Wait()
		}()
		err := cmd.Wait()
		s.ended(err, out, ours[1:]...)
		closeAll(ours[:])
	})
	return nil
}

// pass copies an output of a command without a terminal to its end.
func (s *visit) pass(to io.Writer, from *os.File) {
	if s.exact {
		drain(to, from)
		return
	}
	seen := newOutput(to, s.c.s.cfg.Secrets)
	drain(seen, from)
	_ = seen.Close() // the client has left, if that fails
}

// drain copies until the end of src, or, once src has a deadline, until it has
// been quiet for a while. A client that does not take it ends it with the
// channel.
func drain(dst io.Writer, src *os.File) {
	buf := make([]byte, 32<<10)
	last := false // the deadline is one that was set here
	for {
		n, err := src.Read(buf)
		if n > 0 {
			last = false
			if _, err := dst.Write(buf[:n]); err != nil {
				_ = src.Close() // the command hears of it
				return
			}
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !last:
			last = src.SetReadDeadline(time.Now().Add(quiet)) == nil
			if !last {
				return
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			pty.Rest(dst, src) // a deadline may pass while there is something
			return
		case err != nil:
			return
		}
	}
}

// ended waits for the output of a command that has ended, tells how it ended,
// and closes the channel.
func (s *visit) ended(err error, out <-chan struct{}, from ...*os.File) {
	s.mu.Lock()
	s.process = nil // its number may be another's from now on
	s.mu.Unlock()
	for _, f := range from {
		_ = f.SetReadDeadline(time.Now()) // drain goes on while there is something
	}
	<-out
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		s.tellStatus(0)
	case ok:
		s.tellExit(exit.ProcessState)
	default:
		s.tellStatus(noStart)
	}
	_ = s.ch.CloseWrite()
	_ = s.ch.Close()
}

func (s *visit) tellExit(state *os.ProcessState) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		s.tellStatus(uint32(state.ExitCode()))
		return
	}
	for name, number := range signals {
		if number == status.Signal() {
			_, _ = s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name  string
				Core  bool
				Words string
				Lang  string
			}{Name: name, Core: status.CoreDump()}))
			return
		}
	}
	s.tellStatus(128 + uint32(status.Signal()))
}

func (s *visit) tellStatus(code uint32) {
	_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
}
