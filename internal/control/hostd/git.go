package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

// runArgs are the arguments of git.run. The request's files are, in this order:
// the command's standard streams, the further files that it inherits, and the
// files at the paths in Read, Write and Execute.
type runArgs struct {
	Path, Dir  string
	Args, Env  []string
	Files      int // number of files that the command inherits besides its streams
	User       int
	Read       []string
	Write      []string
	Execute    []string
	Network    bool
	DataBytes  uint64
	FileBytes  uint64
	Low        bool
	GraceNanos time.Duration // Cmd.WaitDelay
}

const streams = 3 // standard input, output and error

// folderArgs are the arguments of the methods that change the owners of a folder.
type folderArgs struct{ User int }

// peerArgs are the arguments of git.ssh and git.serve. The file descriptor
// passed with the request is the peer's input and output.
type peerArgs struct {
	URL, Service string
	Pin          netip.Addr
	Env          []string
}

// hostArgs are the arguments of git.known.
type hostArgs struct{ Host, Port string }

// onFolder returns the handler of a method that works on a folder.
func onFolder(do func(g mirror.Host, dir string, user int) error) handler {
	return with(func(_ context.Context, s *session, h *Opened, a folderArgs) (any, []*os.File, error) {
		dir, err := s.folder()
		if err != nil {
			return nil, nil, err
		}
		if a.User != 0 && !confine.IsUser(a.User) {
			return nil, nil, fault.Denied("user %d is not a user of confined programs", a.User)
		}
		return nil, nil, do(h.Git, descriptorPath(dir)+"/.", a.User)
	})
}

// onPeer returns the handler of a method that runs git's service as the peer of
// a git command.
func onPeer(do func(ctx context.Context, g mirror.Host, a peerArgs, far *os.File) (string, error)) handler {
	return with(func(ctx context.Context, s *session, h *Opened, a peerArgs) (any, []*os.File, error) {
		if len(s.files) != 1 {
			return nil, nil, fault.Invalid("%d streams instead of one", len(s.files))
		}
		for _, kv := range a.Env {
			if kv != "GIT_PROTOCOL=version=2" {
				return nil, nil, fault.Denied("the variable %s is not allowed for this service", fault.Quoted(kv))
			}
		}
		stderr, err := do(ctx, h.Git, a, s.files[0])
		s.files = nil // the method has closed the file
		return stderr, nil, err
	})
}

var gitMethods = map[string]handler{
	"git.run":      with(runGit),
	"git.confined": on(func(_ context.Context, h *Opened, _ none) (any, error) { return nil, h.Git.Confined() }),
	"git.share":    onFolder(func(g mirror.Host, dir string, user int) error { return g.Share(dir, user) }),
	"git.tidy":     onFolder(func(g mirror.Host, dir string, user int) error { return g.Tidy(dir, user) }),
	"git.takeBack": onFolder(func(g mirror.Host, dir string, _ int) error { return g.TakeBack(dir) }),
	"git.empty":    onFolder(func(g mirror.Host, dir string, _ int) error { return g.Empty(dir) }),
	"git.known": on(func(ctx context.Context, h *Opened, a hostArgs) (any, error) {
		return h.Git.KnownToSSH(ctx, a.Host, a.Port), nil
	}),
	"git.mayServe": on(func(_ context.Context, h *Opened, url string) (any, error) { return h.Git.MayServe(url), nil }),
	"git.ssh": onPeer(func(ctx context.Context, g mirror.Host, a peerArgs, far *os.File) (string, error) {
		return g.SSH(ctx, a.URL, a.Pin, a.Service, a.Env, far), nil
	}),
	"git.serve": onPeer(func(ctx context.Context, g mirror.Host, a peerArgs, far *os.File) (string, error) {
		return g.Serve(ctx, a.URL, a.Service, a.Env, far)
	}),
}

// runGit runs a confined command. Whatever the server asks for, the command
// runs as a separate user without capabilities, and sees only files that the
// server could open.
func runGit(ctx context.Context, s *session, h *Opened, a runArgs) (any, []*os.File, error) {
	paths := slices.Concat(a.Read, a.Write, a.Execute)
	if a.Files < 0 || len(s.files) != streams+a.Files+len(paths) {
		return nil, nil, fault.Invalid("%d files for %d streams and %d paths", len(s.files), streams+a.Files, len(paths))
	}
	if !confine.IsUser(a.User) {
		return nil, nil, fault.Denied("user %d is not a user of confined programs", a.User)
	}
	if err := h.Git.Confined(); err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, a.Path, a.Args[min(1, len(a.Args)):]...) //nolint:gosec // it runs in a jail
	cmd.Dir, cmd.Env, cmd.WaitDelay = a.Dir, a.Env, a.GraceNanos
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.files[0], s.files[1], s.files[2]
	cmd.ExtraFiles = s.files[streams : streams+a.Files]
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	jail := confine.Jail{
		User: a.User, Read: a.Read, Write: a.Write, Execute: a.Execute, Network: a.Network,
		DataBytes: a.DataBytes, FileBytes: a.FileBytes, Files: map[string]*os.File{},
	}
	for i, path := range paths {
		f, err := sameFile(path, s.files[streams+a.Files+i])
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = f.Close() }() // nothing was written through it
		jail.Files[path] = f
	}
	err := h.Git.Run(ctx, confine.Command{
		Cmd: cmd, Jail: jail, Low: a.Low, Stop: func() unix.Signal { return unix.SIGKILL },
		Started: func() {
			closeAll(s.files) // the command has its own copies
			s.files = nil
			if cmd.Process == nil {
				return
			}
			_ = s.send(frameStarted, nil) // if this fails, the server is gone and the call ends
			go s.signals(ctx, cmd.Process.Pid)
		},
	})
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok {
			err = &confine.ExitError{Status: unix.WaitStatus(status)}
		}
	}
	return nil, nil, err
}

// sameFile opens the path in this process's mount namespace, because a
// descriptor from the server's namespace cannot be mounted. It returns an error
// unless the path leads to the file that the server has opened.
func sameFile(path string, servers *os.File) (*os.File, error) {
	own, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	a, errA := own.Stat()
	b, errB := servers.Stat()
	if err := errors.Join(errA, errB); err != nil || !os.SameFile(a, b) {
		return nil, errors.Join(fault.Denied("%s is a different file in the server's view", path).Because(err), own.Close())
	}
	return own, nil
}

// signals sends the client's signals to a process group until the call ends.
func (s *session) signals(ctx context.Context, group int) {
	for {
		select {
		case f := <-s.frames:
			var signal unix.Signal
			if f.kind == frameSignal && json.Unmarshal(f.content, &signal) == nil && (signal == unix.SIGTERM || signal == unix.SIGKILL) {
				_ = unix.Kill(-group, signal) // the process may have ended
			}
		case <-ctx.Done():
			return
		}
	}
}

// git is a [mirror.Host] that calls a host-daemon.
type git struct {
	c          *Client
	unconfined error
}

// newGit creates a git, and asks the host-daemon whether it confines git.
func newGit(ctx context.Context, c *Client) (*git, error) {
	_, err := c.do(ctx, "git.confined", none{}, nil, options{})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &git{c, err}, nil
}

// Confined implements [mirror.Host].
func (g *git) Confined() error { return g.unconfined }

// Run implements [mirror.Host].
func (g *git) Run(ctx context.Context, c confine.Command) error {
	started := sync.OnceFunc(c.Started)
	defer started()
	cmd, j := c.Cmd, c.Jail
	if j.Bare || len(j.Capabilities) > 0 {
		return errors.New("the host-daemon runs no such command")
	}
	var in copier
	defer in.close()
	files, err := in.streams(cmd)
	if err != nil {
		return err
	}
	all := slices.Concat(files, cmd.ExtraFiles)
	for _, path := range slices.Concat(j.Read, j.Write, j.Execute) {
		f, err := os.OpenFile(path, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // nothing was written through it
		all = append(all, f)
	}
	// When ctx ends, a signal frame asks the host-daemon to stop the command.
	// The host-daemon ends the call once the command has ended.
	running, stopped := context.WithCancel(context.WithoutCancel(ctx))
	defer stopped()
	_, err = g.c.do(running, "git.run", runArgs{
		Path: cmd.Path, Dir: cmd.Dir, Args: cmd.Args, Env: cmd.Env, Files: len(cmd.ExtraFiles), User: j.User,
		Read: j.Read, Write: j.Write, Execute: j.Execute, Network: j.Network, DataBytes: j.DataBytes, FileBytes: j.FileBytes,
		Low: c.Low, GraceNanos: cmd.WaitDelay,
	}, nil, options{files: all, started: func(k *call) {
		started()
		in.start()
		context.AfterFunc(ctx, func() {
			_ = k.send(frameSignal, c.Stop()) // the command may have ended
			time.AfterFunc(cmd.WaitDelay, stopped)
		})
	}})
	if err := in.wait(cmd.WaitDelay); err != nil {
		return err
	}
	if exit, ok := errors.AsType[*confine.ExitError](err); ok {
		return exit
	}
	return err
}

// A copier copies between a command's streams and pipes, whose other ends the
// host-daemon gets.
type copier struct {
	ends  []*os.File // the host-daemon's ends of the pipes
	own   []*os.File // this process's ends of the pipes
	tasks []func() error
	done  chan error // receives the result of each task
}

// streams returns the files to pass as the command's standard streams.
func (p *copier) streams(cmd *exec.Cmd) (files []*os.File, err error) {
	for i, stream := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		f, ok := stream.(*os.File)
		if !ok {
			if f, err = p.pipe(i == 0, stream); err != nil {
				return nil, err
			}
			p.ends = append(p.ends, f)
		}
		files = append(files, f)
	}
	return files, nil
}

// pipe returns the host-daemon's end of a pipe to or from a stream. For a nil
// stream, it returns the null device.
func (p *copier) pipe(input bool, stream any) (*os.File, error) {
	if stream == nil {
		return os.OpenFile(os.DevNull, os.O_RDWR, 0)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if input {
		p.own = append(p.own, w)
		p.tasks = append(p.tasks, func() error {
			_, err := io.Copy(w, stream.(io.Reader))
			if errors.Is(err, syscall.EPIPE) {
				err = nil // the command has closed its input
			}
			return errors.Join(err, w.Close())
		})
		return r, nil
	}
	p.own = append(p.own, r)
	p.tasks = append(p.tasks, func() error {
		_, err := io.Copy(stream.(io.Writer), r)
		return errors.Join(err, r.Close())
	})
	return w, nil
}

// start begins to copy. It closes this process's copies of the host-daemon's
// ends.
func (p *copier) start() {
	closeAll(p.ends)
	p.ends = nil
	p.done = make(chan error, len(p.tasks))
	for _, task := range p.tasks {
		go func() { p.done <- task() }()
	}
}

// wait waits until everything is copied. After the command has ended, it waits
// no longer than grace. It returns the first error.
func (p *copier) wait(grace time.Duration) (first error) {
	if p.done == nil {
		return nil // start was not called
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for range p.tasks {
		select {
		case err := <-p.done:
			if first == nil {
				first = err
			}
		case <-timer.C:
			return errors.Join(first, exec.ErrWaitDelay)
		}
	}
	return first
}

func (p *copier) close() {
	closeAll(p.ends)
	closeAll(p.own) // already closed, unless the command was not started
}

// folder calls a method that works on a folder.
func (g *git) folder(method, dir string, user int) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written through it
	_, err = g.c.do(context.Background(), method, folderArgs{user}, nil, options{files: []*os.File{f}})
	return err
}

// Share implements [mirror.Host].
func (g *git) Share(dir string, user int) error { return g.folder("git.share", dir, user) }

// Tidy implements [mirror.Host].
func (g *git) Tidy(dir string, user int) error { return g.folder("git.tidy", dir, user) }

// TakeBack implements [mirror.Host].
func (g *git) TakeBack(dir string) error { return g.folder("git.takeBack", dir, 0) }

// Empty implements [mirror.Host].
func (g *git) Empty(dir string) error {
	err := g.folder("git.empty", dir, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// KnownToSSH implements [mirror.Host].
func (g *git) KnownToSSH(ctx context.Context, host, port string) (known bool) {
	_, _ = g.c.do(ctx, "git.known", hostArgs{host, port}, &known, options{}) // on error, the host counts as unknown
	return known
}

// MayServe implements [mirror.Host].
func (g *git) MayServe(url string) (may bool) {
	_, _ = g.c.do(context.Background(), "git.mayServe", url, &may, options{}) // on error, serving is refused
	return may
}

// peer calls a method that runs git's service, and closes far.
func (g *git) peer(ctx context.Context, method string, a peerArgs, far *os.File) (stderr string, err error) {
	defer func() { _ = far.Close() }()
	_, err = g.c.do(ctx, method, a, &stderr, options{files: []*os.File{far}, onSent: func() { _ = far.Close() }})
	return stderr, err
}

// SSH implements [mirror.Host].
func (g *git) SSH(ctx context.Context, url string, pin netip.Addr, service string, env []string, far *os.File) (stderr string) {
	stderr, err := g.peer(ctx, "git.ssh", peerArgs{url, service, pin, env}, far)
	if err != nil {
		return fmt.Sprint(stderr, err)
	}
	return stderr
}

// Serve implements [mirror.Host].
func (g *git) Serve(ctx context.Context, url, service string, env []string, far *os.File) (stderr string, err error) {
	return g.peer(ctx, "git.serve", peerArgs{URL: url, Service: service, Env: env}, far)
}
