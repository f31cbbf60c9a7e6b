package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	sandboxpolicy "aloft/internal/policy/sandbox"
)

// The sandbox's own exit codes. All others are the command's.
const (
	ExitUnenforceable = 123 // the host cannot enforce the policy; the command was not run
	ExitFailed        = 125
	ExitCannot        = 126
	ExitNotFound      = 127
)

// A Server serves the sandbox's network. It accepts the command's connections to the
// proxy, and returns when the listener is closed.
type Server interface{ Serve(net.Listener) error }

// Job is one command to run in a sandbox.
type Job struct {
	// Spec returns the requested sandbox for the current files. It is called
	// again if files change while the sandbox is set up.
	Spec   func() (Spec, error)
	Policy sandboxpolicy.Policy // the policy of every Spec
	Dir    string               // absolute path of the starting directory
	Argv   []string             // the command; its name is searched in Env's PATH
	Env    []string
	Proxy  Server    // required if the policy lists hosts
	Keeper []string  // the command that runs Keep in another process
	Words  io.Writer // messages for the user

	started func() // called when the child has started, for tests
}

// Run runs a command and returns its exit code: 128+n if signal n killed it, or
// one of the sandbox's own codes, with the error. It changes this process (its
// signals and children), so it can be called only once.
func Run(job Job) (int, error) {
	// Until the command has started, disable the garbage collector and use two
	// processors: one creates the child while the other makes the plan.
	processors, garbage, memory := runtime.GOMAXPROCS(2), debug.SetGCPercent(-1), debug.SetMemoryLimit(math.MaxInt64)
	job.started = func() {
		debug.SetMemoryLimit(memory)
		debug.SetGCPercent(garbage)
		runtime.GOMAXPROCS(processors)
	}
	if folderStreams() {
		return ExitFailed, errors.New("standard input, output or error is a folder, from which a command could leave the sandbox")
	}
	file, err := lookPath(job.Argv[0], job.Dir, job.Env)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return ExitCannot, err
		}
		return ExitNotFound, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return ExitFailed, fmt.Errorf("become the reaper: %w", err)
	}
	kernel := Assume()
	for try := 1; ; try++ {
		code, err := job.runOnce(kernel, file, try > firmTries)
		step, isStep := errors.AsType[*CallError](err)
		if isStep && !step.exec && kernel.Namespaces && isRefusal(step.Err) {
			// Plan again without namespaces. The plan either fails with an error that says what
			// is missing, or succeeds if the spec asks for best effort.
			kernel.Namespaces, kernel.Why = false, step.Error()
			continue
		}
		moved := errors.Is(err, errMoved) || isStep && step.moved()
		if moved && try < maxTries {
			runtime.Gosched()
			continue
		}
		return code, err
	}
}

// How many times to plan again if files change during planning, for example because
// other processes create and remove files in the folders for temporary files. The first
// attempts do not skip a removed path, since a socket may reappear under the same name;
// later attempts skip it.
const (
	firmTries = 10
	maxTries  = 100
)

func isRefusal(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EUSERS)
}

// runOnce makes a plan and runs the command.
func (job Job) runOnce(kernel Kernel, file string, lenient bool) (int, error) {
	if job.Policy.Type == sandboxpolicy.InsecureNone {
		if _, err := job.Spec(); err != nil {
			return ExitFailed, err
		}
		return job.replace(file)
	}
	// If the child was created with fewer namespaces than the plan needs,
	// discard it.
	flags := isolate(job.Policy, kernel).flags()
	child := startChild(flags)
	r, err := job.prepare(kernel, file, lenient)
	if err == nil && r.layout.flags() != flags {
		err = errors.New("the plan is of another policy")
	}
	if err != nil {
		child.abandon()
		r.holding.release()
		if _, ok := errors.AsType[*UnenforceableError](err); ok {
			return ExitUnenforceable, err
		}
		return ExitFailed, err
	}
	pid, err := child.run(r.program)
	if err != nil {
		r.holding.release()
		if step, ok := errors.AsType[*CallError](err); ok && step.exec {
			if errors.Is(err, os.ErrNotExist) {
				return ExitNotFound, err
			}
			return ExitCannot, err
		}
		return ExitFailed, err
	}
	signals := passSignals()
	if r.layout.Proxy {
		job.started()
	}
	stop := job.serve(r.layout)
	status, alone := wait(pid, signals)
	stop()
	for _, name := range setAside(r.layout.Late, r.late) {
		fmt.Fprintf(job.Words, "sandbox: %s is protected: the file that the command created there was renamed\n", name)
	}
	if alone || len(r.holding)+len(r.layout.Late) == 0 || len(job.Keeper) == 0 {
		r.holding.release()
	} else if err := job.keep(r); err != nil {
		// Leave the placeholders: they are marked and keep protecting their
		// paths, and the next sandbox here removes them.
		fmt.Fprintln(job.Words, "sandbox: cannot remove placeholders from the workspace:", err)
	}
	if status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// prepared is everything needed to run a command.
type prepared struct {
	layout  Layout
	program *program
	holding heldPlaceholders // the placeholders
	late    map[string]bool  // names that already match the layout's late patterns
}

// prepare makes the plan. The caller must release its placeholders.
func (job Job) prepare(kernel Kernel, file string, lenient bool) (r prepared, err error) {
	spec, err := job.Spec()
	if err != nil {
		return r, err
	}
	spec.Streams = streams()
	if r.layout, err = Plan(spec, kernel, hostTree{}); err != nil {
		return r, err
	}
	for _, m := range r.layout.Missing {
		fmt.Fprintln(job.Words, "sandbox: not enforced:", m)
	}
	if r.layout.Proxy && job.Proxy == nil {
		return r, errors.New("the policy lists hosts, but there is no proxy")
	}
	if r.holding, err = holdPlaceholders(r.layout); err != nil {
		return r, err
	}
	r.late = lateNames(r.layout.Late)
	r.program = r.layout.compile(kernel, lenient, job.Dir, file, job.Argv, job.environ(r.layout, kernel))
	return r, nil
}

// replace replaces this process by a command that needs no sandbox.
func (job Job) replace(file string) (int, error) {
	if err := os.Chdir(job.Dir); err != nil {
		return ExitFailed, err
	}
	return ExitCannot, &CallError{What: file, Err: syscall.Exec(file, job.Argv, job.Env)}
}

// serve runs the proxy on the listener that the child has created.
func (job Job) serve(l Layout) (stop func()) {
	if !l.Proxy {
		return func() {}
	}
	f := os.NewFile(listenerFD, "proxy")
	listener, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		fmt.Fprintln(job.Words, "sandbox: no network:", err)
		return func() {}
	}
	done := make(chan error, 1)
	go func() { done <- job.Proxy.Serve(listener) }()
	return func() {
		_ = listener.Close()
		<-done
	}
}

// passSignals returns a channel of signals to forward to the command. It must
// be called after the command has started, because a child inherits ignored
// signals. Registering takes some time for each signal, so a short command
// should not wait for it.
func passSignals() <-chan os.Signal {
	passed := make(chan os.Signal, 8)
	go func() {
		signal.Notify(passed, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
		// A terminal sends these signals to the command as well.
		signal.Ignore(syscall.SIGINT, syscall.SIGQUIT)
	}()
	return passed
}

// wait waits for the child and forwards signals to it. alone reports whether all
// processes that the child started have ended.
func wait(pid int, passed <-chan os.Signal) (status unix.WaitStatus, alone bool) {
	go func() {
		for s := range passed {
			_ = unix.Kill(pid, s.(syscall.Signal)) // it may have exited already
		}
	}()
	for {
		var st unix.WaitStatus
		got, err := unix.Wait4(-1, &st, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return status, true // the child's own exit was seen before
		case got == pid:
			for {
				left, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
				if err == unix.ECHILD {
					return st, true
				}
				if left == 0 {
					return st, false
				}
			}
		}
	}
}

// environ returns the command's environment: the job's, plus variables that
// describe the sandbox.
func (job Job) environ(l Layout, k Kernel) []string {
	if l.Unconfined {
		return job.Env
	}
	own := map[string]string{
		"CURSOR_SANDBOX": "native", "CURSOR_ORIG_UID": strconv.Itoa(k.UID), "CURSOR_ORIG_GID": strconv.Itoa(k.GID),
		"CURSOR_SANDBOX_LANDLOCK_STATUS": l.Status(),
	}
	if l.Proxy {
		at := "127.0.0.1:" + strconv.Itoa(ProxyPort)
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			own[name] = "http://" + at
		}
		own["ALL_PROXY"], own["all_proxy"] = "socks5h://"+at, "socks5h://"+at
		own["NO_PROXY"], own["no_proxy"] = "localhost,127.0.0.1,::1", "localhost,127.0.0.1,::1"
		own["NODE_USE_ENV_PROXY"] = "1"
	}
	env := slices.DeleteFunc(slices.Clone(job.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		_, ours := own[name]
		return ours
	})
	for name, value := range own {
		env = append(env, name+"="+value)
	}
	slices.Sort(env[len(env)-len(own):])
	return env
}

// lookPath finds a program as execvp does, in the job's own PATH.
func lookPath(name, dir string, env []string) (string, error) {
	find := func(file string) (string, error) {
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		return exec.LookPath(file)
	}
	if strings.Contains(name, "/") {
		return find(name)
	}
	list := ""
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			list = value
		}
	}
	var denied error
	for _, folder := range filepath.SplitList(list) {
		file, err := find(filepath.Join(folder, name))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, os.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// keep passes the placeholders to a keeper, which runs as long as the processes that the
// command left running.
func (job Job) keep(r prepared) error {
	namespace, _, _ := bytes.Cut(r.program.namespace[:], []byte{0})
	if len(namespace) == 0 {
		return errors.New("cannot track processes that are still running: there is no /proc/self/ns/mnt")
	}
	args := append(slices.Clone(job.Keeper), string(namespace))
	var files []*os.File
	for _, s := range r.holding {
		args = append(args, "hold="+s.path)
		files = append(files, s.lock)
	}
	for _, pattern := range r.layout.Late {
		args = append(args, "late="+pattern)
	}
	for name := range r.late {
		args = append(args, "known="+name)
	}
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Dir, cmd.ExtraFiles = "/", files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}
