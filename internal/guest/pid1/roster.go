package pid1

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/process"
)

// maxKept limits the number of supervised processes.
const maxKept = 256

// Names of processes that pod-daemon starts by itself.
const (
	execName      = "exec-daemon"
	terminalsName = "terminals"
)

var processName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// restartPolicy says when a process that has ended is restarted.
type restartPolicy int

const (
	restartOnFailure restartPolicy = iota
	restartNever
	restartAlways
)

func (p restartPolicy) shouldRestart(status syscall.WaitStatus) bool {
	return p == restartAlways || p == restartOnFailure && process.ExitCode(status) != 0
}

// keptProcess is a process that pod-daemon supervises on request.
type keptProcess struct {
	name    string
	command []string
	policy  restartPolicy
	service *process.Service
}

// processSpec describes a process to supervise.
type processSpec struct {
	name    string
	command []string
	env     map[string]string
	dir     string // absolute
	policy  restartPolicy
	root    bool // run as root instead of the agent's user

	socket *os.File // passed through systemd's socket activation protocol; nil for none
	stale  string   // file to remove before each start; "" for none
}

// roster holds the supervised processes in the order of their first start. Its
// methods are safe for concurrent use.
type roster struct {
	d *Daemon

	mu     sync.Mutex
	list   []*keptProcess
	closed bool
}

func (r *roster) all() []*keptProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

func (r *roster) find(name string) (*keptProcess, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.list {
		if p.name == name {
			return p, nil
		}
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no process %.70q; ListProcesses lists them", name))
}

// check validates a spec.
func (s processSpec) check() error {
	switch {
	case !processName.MatchString(s.name), s.name == execName:
		return fmt.Errorf("name: %.70q is not a valid process name: use 1 to 64 letters, digits, ., _ and -, other than %s", s.name, execName)
	case len(s.command) == 0 || s.command[0] == "":
		return errors.New("command: must not be empty")
	case s.dir != "" && !filepath.IsAbs(s.dir):
		return fmt.Errorf("directory: %.200q is not absolute", s.dir)
	}
	for _, arg := range s.command {
		if strings.ContainsRune(arg, 0) {
			return errors.New("command: an argument contains a NUL byte")
		}
	}
	for name, value := range s.env {
		if !variable.MatchString(name) || strings.ContainsRune(value, 0) {
			return fmt.Errorf("env: %.70q is not a valid variable name", name)
		}
	}
	return nil
}

// start starts a process and supervises it.
func (r *roster) start(spec processSpec) (*keptProcess, error) {
	if err := spec.check(); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.list, func(p *keptProcess) bool { return p.name == spec.name })
	switch {
	case r.closed:
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the machine is stopping"))
	case at >= 0 && !r.list[at].isFinished():
		return nil, connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("a process %s is already running: stop it first", spec.name))
	case at < 0 && len(r.list) >= maxKept:
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("there are %d processes already, which is the limit", maxKept))
	}
	p := &keptProcess{name: spec.name, command: spec.command, policy: spec.policy}
	printed := new(process.Output)
	if at >= 0 {
		printed = r.list[at].service.Printed // keep the old output, whose end may be of interest
	}
	p.service = &process.Service{
		Name: spec.name, Mark: spec.name, Reaper: r.d.reaper, Log: r.d.cfg.Log,
		Again: spec.policy.shouldRestart, Printed: printed,
		Command: func() *exec.Cmd { return r.d.keptCommand(spec) },
	}
	if err := p.service.Launch(); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if at >= 0 {
		r.list[at] = p
	} else {
		r.list = append(r.list, p)
	}
	return p, nil
}

// stop stops a process with all its descendants.
func (p *keptProcess) stop(grace time.Duration) {
	p.service.Stop(grace)
	p.service.Bury()
}

// isFinished reports whether the process has ended and will not be restarted.
func (p *keptProcess) isFinished() bool {
	select {
	case <-p.service.Stopped():
		return p.service.Running() == nil
	default:
		return false
	}
}

// stopAll stops every process within the limit, the last started first.
// Afterwards no process can be started.
func (r *roster) stopAll(limit time.Duration) {
	r.mu.Lock()
	r.closed = true
	list := slices.Clone(r.list)
	r.mu.Unlock()
	deadline := time.Now().Add(limit)
	for i, p := range slices.Backward(list) {
		p.service.Stop(max(0, time.Until(deadline)/time.Duration(i+1)))
	}
}

func (d *Daemon) keptCommand(spec processSpec) *exec.Cmd {
	command, more, files := spec.command, []string(nil), []*os.File(nil)
	if spec.socket != nil {
		command, more, files = handOver(command, spec.socket)
	}
	if spec.stale != "" {
		_ = os.Remove(spec.stale) // usually it does not exist
	}
	cmd := exec.Command(command[0], command[1:]...) //nolint:noctx // its service stops it
	cmd.ExtraFiles = files
	cmd.Dir = spec.dir
	if cmd.Dir == "" {
		cmd.Dir = d.workspace()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if !spec.root {
		cmd.SysProcAttr = d.user.Load().attributes()
	}
	cmd.SysProcAttr.Setsid = true
	env := d.environ()
	if spec.root {
		env = d.ownEnviron()
	}
	cmd.Env = append(append([]string{process.Variable + "=" + spec.name}, env...), more...)
	for name, value := range spec.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if path := lookPath(command[0], cmd.Env); path != "" {
		cmd.Path, cmd.Err = path, nil
	}
	return cmd
}

// workspace returns the folder of the first repository, or "/" if there is none
// yet.
func (d *Daemon) workspace() string {
	d.mu.Lock()
	repos := d.repos
	d.mu.Unlock()
	if len(repos) > 0 {
		return repos[0].Path
	}
	if exists(d.cfg.Workspace) {
		return d.cfg.Workspace
	}
	return "/"
}

// lookPath finds a command in the PATH of an environment. It returns "" if it
// finds none, or if name is already a path.
func lookPath(name string, env []string) string {
	if strings.ContainsRune(name, '/') {
		return ""
	}
	for _, kv := range slices.Backward(env) {
		path, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(found) {
				return found
			}
		}
		return ""
	}
	return ""
}
