package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// maxMessage is the largest message of a server, in bytes.
const maxMessage = 16 << 20

// markVariable is set in the environment of everything that a server starts, so
// that it can be killed with the server.
const markVariable = "ALOFT_MCP"

// process is one run of a server.
type process struct {
	cmd    *exec.Cmd
	mark   string
	stdin  io.WriteCloser
	stdout *lines
	exited chan struct{} // closed once the process has been waited for
	err    error         // result of waiting; valid once exited is closed
}

// start starts the program.
func (s *server) start() (*process, error) {
	conf, err := s.conf.Expand(variables(s.env, s.m.Home, s.m.Workspace))
	if err != nil {
		return nil, err
	}
	env, err := s.environ(conf.EnvFile)
	if err != nil {
		return nil, err
	}
	for name, value := range conf.Env {
		env = append(env, name+"="+value)
	}
	mark := uuid.NewString()
	env = append(env, markVariable+"="+mark)
	argv := append([]string{conf.Command}, conf.Args...)
	if argv[0], err = find(conf.Command, s.m.Workspace, env); err != nil {
		return nil, err
	}
	if s.around != nil {
		if argv, err = s.around(argv...); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it lives as long as its server, which kills it with everything it started
	cmd.Dir, cmd.Env, cmd.Stderr = s.m.Workspace, env, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stopWithin // for children that have its stderr open
	p := &process{cmd: cmd, mark: mark, exited: make(chan struct{})}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Do not use StdoutPipe: cmd.Wait would close the pipe while it is still being read.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close() // the child has its own copy
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("it could not be started: %w", err)
	}
	p.stdout = newLines(r, s.log)
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// environ returns the machine's environment plus the variables of an env file.
func (s *server) environ(file string) ([]string, error) {
	env := slices.Clone(s.env)
	if file == "" {
		return env, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.m.Workspace, file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("envFile: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("envFile: %w", err)
	}
	return append(env, assigned(string(data))...), nil
}

// assigned parses lines of NAME=value, with or without quotes; it skips other
// lines.
func assigned(text string) (env []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.HasPrefix(name, "#") || strings.ContainsRune(line, 0) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		env = append(env, name+"="+value)
	}
	return env
}

// find finds a program in the PATH of the server's environment.
func find(command, dir string, env []string) (string, error) {
	if strings.ContainsRune(command, '/') {
		if !filepath.IsAbs(command) {
			command = filepath.Join(dir, command)
		}
		return command, nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
		}
	}
	for _, folder := range filepath.SplitList(path) {
		full := filepath.Join(folder, command)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 && filepath.IsAbs(full) {
			return full, nil
		}
	}
	return "", fmt.Errorf("there is no program %q in PATH: install it, in environment.json or the image", command)
}

func (p *process) transport() sdk.Transport {
	return &sdk.IOTransport{Reader: p.stdout, Writer: p.stdin, MaxLineLength: maxMessage + 1}
}

// explain adds to an error why the process ended, if known.
func (p *process) explain(ctx context.Context, err error) error {
	if broken := p.stdout.broken(); broken != nil {
		return broken
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.New("it timed out")
	}
	select {
	case <-p.exited:
	case <-time.After(endsWithin):
		return err
	}
	if p.err != nil {
		return fmt.Errorf("it exited: %w", p.err)
	}
	return errors.New("it exited")
}

// kill stops the program and everything it started: it closes stdin and sends
// SIGTERM, then SIGKILL.
func (p *process) kill() {
	_ = p.stdin.Close() // well-behaved servers exit when their input ends
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWithin):
	}
	// Repeat, to catch processes that fork meanwhile.
	for until := time.Now().Add(stopWithin); time.Now().Before(until); {
		killed := p.signal(syscall.SIGKILL)
		if len(killed) == 0 {
			break
		}
		for _, pid := range killed {
			await(pid, time.Until(until))
		}
	}
	<-p.exited
	_ = p.stdout.Close()
}

// signal signals all processes of the server and returns their ids.
func (p *process) signal(sig syscall.Signal) []int {
	members := p.members()
	for _, pid := range members {
		_ = syscall.Kill(pid, sig) // it may have exited already
	}
	return members
}

// await waits until a process has ended. It returns at once if the kernel does not
// support waiting for other processes.
func await(pid int, within time.Duration) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // gone, or not supported: the caller checks again
	}
	defer func() { _ = unix.Close(fd) }()
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(within, 0).Milliseconds())) // errors are ignored, as above
}

// members returns the server's living processes: those in its process group,
// and those with its mark in their environment.
func (p *process) members() []int {
	var out []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte(markVariable + "=" + p.mark)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(f) < 3 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		if f[2] == strconv.Itoa(p.cmd.Process.Pid) {
			out = append(out, pid)
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && slices.ContainsFunc(bytes.Split(env, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			out = append(out, pid)
		}
	}
	return out
}

// lines forwards the lines of a server's output that are JSON messages, and logs the
// others. A line that is too long ends the output.
type lines struct {
	from   io.ReadCloser
	in     *bufio.Reader
	log    io.Writer
	rest   []byte
	failed chan error // receives the error if the output ended early
}

func newLines(from io.ReadCloser, log io.Writer) *lines {
	return &lines{from: from, in: bufio.NewReaderSize(from, 64<<10), log: log, failed: make(chan error, 1)}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		if err != nil {
			return 0, err
		}
		text := bytes.TrimSpace(line)
		if len(text) > 0 && (text[0] == '{' || text[0] == '[') && json.Valid(text) {
			l.rest = append(bytes.Clone(text), '\n')
			break
		}
		_, _ = l.log.Write(append(text, '\n')) // a failing log is no reason to stop
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.in.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case len(line) > maxMessage:
			err := fmt.Errorf("it sent a message of more than %d MiB", maxMessage>>20)
			select {
			case l.failed <- err:
			default:
			}
			return nil, err
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(line) > 0 && errors.Is(err, io.EOF):
			return line, nil
		}
		return line, err
	}
}

func (l *lines) broken() error {
	select {
	case err := <-l.failed:
		return err
	default:
		return nil
	}
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.from.Close() }
