package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/machine/container/process"
	"aloft/internal/policy"
)

// The egress process is started from conf.Gateway with these flags and
// descriptors: --dir=DIR is the folder of its policy and its socket, --log=DIR
// is where to log the machine's connections (optional), descriptor 3 is the TAP
// device, and descriptor 4 is a pipe to which the process writes once it
// serves. The process ends when it is killed or when DIR is removed.
const (
	gatewaySocket  = "gateway.sock"
	gatewayPolicy  = "policy.json"
	gatewayLog     = "log"
	gatewayProcess = "gateway.json"   // identifies the running egress process
	gatewayStart   = 15 * time.Second // startup usually takes milliseconds; the timeout is for an overloaded host
)

// gatewayFlag is the argument that identifies the machine's egress process.
func (m *Machine) gatewayFlag() string { return "--dir=" + m.path("link") }

// startGateway creates the machine's link and starts the egress process at its
// other end. The link is in namespace, or in a new network namespace if that is
// nil. The process has its own session, so that it outlives the server. wait
// returns when the process accepts connections.
func (m *Machine) startGateway(spec machine.Spec, namespace *os.File) (_ link.Link, wait func(context.Context) error, err error) {
	if len(m.r.conf.Gateway) == 0 {
		return link.Link{}, nil, errors.New("this runtime has no egress command, so its machines cannot have a network")
	}
	dir := m.path("link")
	if err := os.RemoveAll(dir); err != nil {
		return link.Link{}, nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return link.Link{}, nil, err
	}
	l, err := link.Make(namespace)
	if err != nil {
		return link.Link{}, nil, err
	}
	wait, err = m.runGateway(spec, l.Device)
	if err != nil {
		return link.Link{}, nil, errors.Join(fmt.Errorf("network: %w", err), l.Close())
	}
	return l, wait, nil
}

// runGateway writes the policy file, starts the egress process and records its
// PID. wait returns when it serves.
func (m *Machine) runGateway(spec machine.Spec, device *os.File) (wait func(context.Context) error, err error) {
	argv := m.r.conf.Gateway
	if spec.ConnectionLog != "" && m.r.conf.ConnectionLogs != "" {
		// Older servers recorded the log's path instead of its name.
		log, err := m.r.conf.ConnectionLogs.Make(filepath.Base(spec.ConnectionLog))
		if err != nil {
			return nil, err
		}
		argv = append(slices.Clone(argv), "--log="+log)
	}
	cmd, wait, err := gatewayCommand(argv, m.path("link"), spec.Network, device)
	if err != nil {
		return nil, err
	}
	err = errors.Join(m.enterEgress(cmd.Process.Pid), process.Record(m.path(filepath.Join("link", gatewayProcess)), cmd.Process.Pid))
	go func() { _ = cmd.Wait() }() // the process is always killed, so its exit status means nothing
	return wait, err
}

// gatewayCommand starts an egress process on the folder dir. The caller must
// call wait, which returns when the process serves, and later reap the command.
func gatewayCommand(argv []string, dir string, n policy.Network, device *os.File) (_ *exec.Cmd, wait func(context.Context) error, err error) {
	data, err := json.Marshal(n)
	if err != nil {
		return nil, nil, err
	}
	if err := atomicfile.WriteUnsynced(filepath.Join(dir, gatewayPolicy), data, 0o600); err != nil {
		return nil, nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, gatewayLog), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	ready, tell, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = tell.Close() }()
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "--dir="+dir)...) //nolint:noctx // it outlives the server
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{device, tell}
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, ready.Close())
	}
	return cmd, func(ctx context.Context) error { return awaitGateway(ctx, dir, ready) }, nil
}

// awaitGateway returns when the egress process serves, and closes the pipe
// ready.
func awaitGateway(ctx context.Context, dir string, ready *os.File) error {
	defer func() { _ = ready.Close() }()
	_ = ready.SetReadDeadline(time.Now().Add(gatewayStart))
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	if _, err := ready.Read(b[:]); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		words, _ := os.ReadFile(filepath.Join(dir, gatewayLog)) // usually short or empty
		return fmt.Errorf("start the egress process: %w: %s", err, words[:min(len(words), maxWords)])
	}
	return nil
}

// DialGateway implements [machine.Networked].
func (m *Machine) DialGateway(ctx context.Context) (net.Conn, error) {
	conn, err := dialIn(ctx, m.path("link"), gatewaySocket)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		err = machine.ErrNoNetwork
	}
	if err != nil {
		return nil, fmt.Errorf("dial the egress process of machine %s: %w", m.id, err)
	}
	return conn, nil
}

// SetPolicy implements [machine.Networked].
func (m *Machine) SetPolicy(ctx context.Context, n policy.Network) error {
	if err := m.setPolicy(ctx, n); err != nil {
		return fmt.Errorf("network policy of machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) setPolicy(ctx context.Context, n policy.Network) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := m.record()
	if err != nil {
		return err
	}
	if rec.Spec.Network.Mode == "" {
		return machine.ErrNoNetwork
	}
	rec.Spec.Network = n
	return m.writeRecord(rec)
}

// dialIn connects to the socket name in dir. It uses a descriptor of dir,
// because the socket's path may exceed the limit of socket addresses.
func dialIn(ctx context.Context, dir, name string) (net.Conn, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var d net.Dialer
	return d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, name))
}
