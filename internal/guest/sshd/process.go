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

// quiet is how long the output of an exited command must be silent to count as
// complete, because a background process may keep it open forever.
const quiet = 200 * time.Millisecond

// noStart is the exit status for a command that cannot be started, as in shells.
const noStart = 127

// start starts the command; running counts its goroutines. Once the command has exited
// and its output is sent, start's goroutines send the exit status and close the channel.
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

// startOnTerminal runs the command on a new terminal, as session leader.
func (s *visit) startOnTerminal(cmd *exec.Cmd, running *sync.WaitGroup) error {
	s.mu.Lock() // the client may resize the terminal meanwhile
	defer s.mu.Unlock()
	master, slave, err := pty.Open(s.term.size)
	if err != nil {
		return fmt.Errorf("terminal: %w", err)
	}
	defer func() { _ = slave.Close() }() // the command has its own copy
	cmd.Env = append(cmd.Env, "SSH_TTY="+slave.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, master.Close())
	}
	s.process, s.term.file = cmd.Process, master
	running.Go(func() {
		_, _ = io.Copy(master, s.ch)
		// The client has closed its input: send Ctrl-D.
		_, _ = master.Write([]byte{4})
	})
	running.Go(func() {
		out := make(chan struct{})
		go func() {
			defer close(out)
			seen := redact.NewLive(s.ch, s.c.s.cfg.Secrets)
			drain(seen, master) // fails once no process has the terminal open
			_ = seen.Close()    // fails if the client has disconnected
		}()
		err := cmd.Wait()
		s.finish(err, out, master)
		_ = master.Close()
	})
	return nil
}

// startOnPipes runs the command on pipes, as leader of a process group.
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
		s.finish(err, out, ours[1:]...)
		closeAll(ours[:])
	})
	return nil
}

// pass copies the output of a command without a terminal until EOF.
func (s *visit) pass(to io.Writer, from *os.File) {
	if s.exact {
		drain(to, from)
		return
	}
	seen := newOutput(to, s.c.s.cfg.Secrets)
	drain(seen, from)
	_ = seen.Close() // fails if the client has disconnected
}

// drain copies src to dst until EOF or, once src has a deadline, until src has been
// quiet for a while. If the client does not read, closing the channel ends the copying.
func drain(dst io.Writer, src *os.File) {
	buf := make([]byte, 32<<10)
	last := false // the final deadline has been set
	for {
		n, err := src.Read(buf)
		if n > 0 {
			last = false
			if _, err := dst.Write(buf[:n]); err != nil {
				_ = src.Close() // the command gets an error or a signal
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
			pty.Rest(dst, src) // there may be data left after the deadline
			return
		case err != nil:
			return
		}
	}
}

// finish waits for the output of an exited command, sends its exit status, and
// closes the channel.
func (s *visit) finish(err error, out <-chan struct{}, from ...*os.File) {
	s.mu.Lock()
	s.process = nil // its process id may be reused from now on
	s.mu.Unlock()
	for _, f := range from {
		_ = f.SetReadDeadline(time.Now()) // drain continues while there is data
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
