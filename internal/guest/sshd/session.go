package sshd

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"

	"aloft/internal/guest/pty"
)

// startVariable is a variable with which a client chooses where its command
// starts: "workspace" instead of the user's home.
const startVariable = "ALOFT_START"

// visit is one ssh session of a user: a shell, a command or a subsystem.
type visit struct {
	c  *client
	ch ssh.Channel

	env   []string
	term  *terminal // nil without a terminal
	exact bool      // forward the command's output unchanged

	mu      sync.Mutex
	process *os.Process // nil until started, and after it has exited
}

// terminal has the terminal settings that a client requested.
type terminal struct {
	name string
	size pty.Size
	file *os.File // the master side, once the command has started
}

type ptyRequest struct {
	Term                         string
	Columns, Rows, Width, Height uint32
	Modes                        string
}

type windowChange struct{ Columns, Rows, Width, Height uint32 }

// maxSide limits a terminal's columns and rows, since programs allocate memory in
// proportion.
const maxSide = 4096

func winsize(columns, rows, width, height uint32) pty.Size {
	side := func(n uint32) uint16 { return uint16(min(n, maxSide)) }
	return pty.Size{Cols: side(columns), Rows: side(rows), X: side(width), Y: side(height)}
}

// session serves one session.
func (c *client) session(open ssh.NewChannel) {
	ch, requests, err := open.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	s := &visit{c: c, ch: ch}
	var running sync.WaitGroup
	started := false
	for r := range requests {
		ok := false
		switch r.Type {
		case "pty-req":
			ok = !started && s.wantTerminal(r.Payload)
		case "env":
			ok = !started && s.addEnv(r.Payload)
		case "window-change":
			ok = s.resize(r.Payload)
		case "signal":
			ok = s.signal(r.Payload)
		case "shell", "exec", "subsystem":
			if started {
				break
			}
			var cmd *exec.Cmd
			if cmd, ok = s.command(r.Type, r.Payload); ok {
				started = true
				// Reply before the first output.
				if r.WantReply {
					_ = r.Reply(true, nil)
				}
				s.start(cmd, &running)
				continue
			}
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
	s.toAll(syscall.SIGHUP) // a process that should outlive the client ignores SIGHUP, or has its own session
	// Wait for processes that ignore SIGHUP, and kill them when the server
	// stops.
	defer context.AfterFunc(c.stop, func() { s.toAll(syscall.SIGKILL) })()
	running.Wait()
}

func (s *visit) wantTerminal(payload []byte) bool {
	var p ptyRequest
	if s.term != nil || ssh.Unmarshal(payload, &p) != nil || strings.ContainsRune(p.Term, 0) {
		return false
	}
	s.term = &terminal{name: p.Term, size: winsize(p.Columns, p.Rows, p.Width, p.Height)}
	return true
}

func (s *visit) addEnv(payload []byte) bool {
	var p struct{ Name, Value string }
	if ssh.Unmarshal(payload, &p) != nil || len(s.env) >= maxEnv ||
		p.Name == "" || strings.ContainsAny(p.Name, "=\x00") || strings.ContainsRune(p.Value, 0) {
		return false
	}
	s.env = append(s.env, p.Name+"="+p.Value)
	return true
}

func (s *visit) resize(payload []byte) bool {
	var p windowChange
	if s.term == nil || ssh.Unmarshal(payload, &p) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term.size = winsize(p.Columns, p.Rows, p.Width, p.Height)
	if s.process == nil {
		return true
	}
	return pty.Resize(s.term.file, s.term.size) == nil
}

// signals are the signals that a client may send.
var signals = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP, "ILL": syscall.SIGILL,
	"INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE, "QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV,
	"TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

// signal sends a signal to the command's process group.
func (s *visit) signal(payload []byte) bool {
	var p struct{ Name string }
	if ssh.Unmarshal(payload, &p) != nil {
		return false
	}
	number, ok := signals[p.Name]
	return ok && s.toAll(number)
}

// toAll sends a signal to the command's process group, if the command is
// running.
func (s *visit) toAll(number syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process != nil && syscall.Kill(-s.process.Pid, number) == nil
}

// command returns the command for a request; ok is false if the request is
// invalid.
func (s *visit) command(kind string, payload []byte) (cmd *exec.Cmd, ok bool) {
	cfg := s.c.s.cfg
	var p struct{ Value string }
	if kind != "shell" && ssh.Unmarshal(payload, &p) != nil || strings.ContainsRune(p.Value, 0) {
		return nil, false
	}
	dir := cfg.Home
	switch kind {
	case "shell":
		cmd = exec.Command(cfg.Shell) //nolint:noctx // it is ended by a SIGHUP when the channel closes
		// A leading dash makes the shell a login shell. Without a terminal, the shell reads
		// commands from the client: editors send them, and do not expect a login shell.
		cmd.Args[0] = "-" + filepath.Base(cfg.Shell)
		if s.term != nil {
			dir = cfg.Workspace
		}
	case "exec":
		cmd = exec.Command(cfg.Shell, "-c", p.Value) //nolint:noctx // as above
		s.exact = carries(p.Value)
	case "subsystem":
		if p.Value != "sftp" || len(cfg.SFTP) == 0 {
			return nil, false
		}
		cmd = exec.Command(cfg.SFTP[0], cfg.SFTP[1:]...) //nolint:noctx // as above
		s.term, s.exact = nil, true
	default:
		return nil, false
	}
	env := cfg.Environ()
	for _, kv := range s.env {
		if kv == startVariable+"=workspace" {
			dir = cfg.Workspace
		}
	}
	env = append(env, s.env...)
	env = append(env, "SSH_CONNECTION=aloft 0 machine 22", "SSH_CLIENT=aloft 0 22")
	if s.term != nil {
		env = append(env, "TERM="+s.term.name)
	}
	cmd.Env = env
	cmd.Dir = dir
	if _, err := os.Stat(dir); err != nil {
		cmd.Dir = "/"
	}
	return cmd, true
}
