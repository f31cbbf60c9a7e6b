// Package fake is a [machine.Runtime] for fast tests. Each machine is a folder
// and a function that serves pod-daemon's socket in the test's process; nothing
// is isolated.
//
// As with real runtimes, all state is in the machine's folder. A new Runtime on
// the same folder can find a machine, stop it and see it stop, even from
// another process: the Runtimes communicate over a second socket in that
// folder. It closes when the machine ends.
package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
)

// Serve acts as a guest: it accepts connections on l, as pod-daemon does, and
// uses dir as its disk. It returns soon after ctx ends, or earlier to simulate
// a machine that stops by itself.
type Serve func(ctx context.Context, dir string, l net.Listener) error

// Runtime is a [machine.Runtime].
type Runtime struct {
	dir   string
	serve Serve
}

// New returns a runtime that keeps its machines below dir.
func New(dir string, serve Serve) *Runtime { return &Runtime{dir, serve} }

var validID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

var layerID = regexp.MustCompile(`^(snapshot|fork|bld)-[0-9]{8}-[0-9a-f-]{36}$`)

// Create implements [machine.Runtime]. It accepts only the image name "host"
// and the default class.
func (r *Runtime) Create(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	m, err := r.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create machine %s: %w", spec.ID, err)
	}
	return m, nil
}

func (r *Runtime) create(ctx context.Context, spec machine.Spec) (*Machine, error) {
	if !validID.MatchString(spec.ID) {
		return nil, fmt.Errorf("invalid machine ID %q: use 1 to 63 letters, digits and hyphens, without a hyphen at either end", spec.ID)
	}
	if spec.Image != "host" || spec.Class != "" {
		return nil, fmt.Errorf("image %q, class %q: a fake has only the image host and the class \"\"", spec.Image, spec.Class)
	}
	for k, v := range spec.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return nil, fmt.Errorf("environment variable %q", k)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	m := r.handle(spec.ID)
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return nil, err
	}
	err := m.fill(spec)
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.NotFound("there is no layer %q", spec.Layer).Named("snapshot_not_found")
	}
	if err == nil {
		err = m.start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.dir))
	}
	return m, nil
}

// Open implements [machine.Runtime].
func (r *Runtime) Open(_ context.Context, id string) (machine.Machine, error) {
	m := r.handle(id)
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("open machine %q: %w", id, machine.ErrNotFound)
	}
	if _, err := os.Lstat(m.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open machine %s: %w", id, machine.ErrNotFound)
	} else if err != nil {
		return nil, fmt.Errorf("open machine %s: %w", id, err)
	}
	return m, nil
}

// List implements [machine.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if validID.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func (r *Runtime) handle(id string) *Machine {
	return &Machine{r: r, id: id, dir: filepath.Join(r.dir, id)}
}

// Machine is a [machine.Machine].
type Machine struct {
	r   *Runtime
	id  string
	dir string
}

// Files of a machine's folder.
const (
	diskName   = "disk"      // the guest's disk
	podName    = "pod.sock"  // the guest's socket
	bootIDName = "life.sock" // open while the machine runs; writing a byte stops the machine
	specName   = "spec.json"
)

// ID implements [machine.Machine].
func (m *Machine) ID() string { return m.id }

// Disk returns the folder that serves as the guest's disk.
func (m *Machine) Disk() string { return filepath.Join(m.dir, diskName) }

func (m *Machine) fill(spec machine.Spec) error {
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if spec.Layer != "" {
		if !validID.MatchString(spec.Layer) {
			return fs.ErrNotExist
		}
		if err := os.CopyFS(m.Disk(), os.DirFS(m.r.layer(spec.Layer))); err != nil {
			return err
		}
	} else if err := os.Mkdir(m.Disk(), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.dir, specName), data, 0o600)
}

// start runs the guest in the background until it returns or is stopped.
func (m *Machine) start() error {
	for _, name := range []string{podName, bootIDName} {
		if err := os.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	pod, err := m.listen(podName)
	if err != nil {
		return err
	}
	lifeline, err := m.listen(bootIDName)
	if err != nil {
		return errors.Join(err, pod.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan []net.Conn, 1)
	go func() { watched <- watch(lifeline, cancel) }()
	go func() {
		_ = m.r.serve(ctx, m.Disk(), pod) // a runtime does not report why a machine stopped
		cancel()
		// Close the guest's socket first: once a client sees that the lifeline socket
		// is closed, it must not be able to reach the guest.
		_ = pod.Close()
		_ = lifeline.Close()
		for _, c := range <-watched {
			_ = c.Close()
		}
	}()
	return nil
}

// watch accepts connections on the lifeline socket and keeps them open for clients
// that wait for the machine's end. It calls stop when a client sends a byte.
func watch(lifeline net.Listener, stop func()) (waiting []net.Conn) {
	for {
		c, err := lifeline.Accept()
		if err != nil {
			return waiting
		}
		waiting = append(waiting, c)
		go func() {
			var b [1]byte
			if n, _ := c.Read(b[:]); n == 1 {
				stop()
			}
		}()
	}
}

// Dial implements [machine.Machine].
func (m *Machine) Dial(ctx context.Context) (net.Conn, error) {
	lifeline, err := m.connect(ctx, bootIDName)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.id, err)
	}
	defer func() { _ = lifeline.Close() }()
	conn, err := m.connect(ctx, podName)
	if err != nil {
		return nil, fmt.Errorf("dial machine %s: %w", m.id, err)
	}
	return conn, nil
}

// Wait implements [machine.Machine].
func (m *Machine) Wait(ctx context.Context) error {
	if err := m.wait(ctx, nil); err != nil {
		return fmt.Errorf("wait for machine %s: %w", m.id, err)
	}
	return nil
}

// wait sends the bytes say on the lifeline socket and waits until the machine
// ends.
func (m *Machine) wait(ctx context.Context, say []byte) error {
	lifeline, err := m.connect(ctx, bootIDName)
	if errors.Is(err, machine.ErrStopped) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = lifeline.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = lifeline.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if len(say) > 0 {
		if _, err := lifeline.Write(say); errors.Is(err, os.ErrDeadlineExceeded) {
			return context.Cause(ctx)
		}
	}
	var b [1]byte
	if _, err := lifeline.Read(b[:]); errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Restart implements [machine.Machine].
func (m *Machine) Restart(ctx context.Context) error {
	if err := m.restart(ctx); err != nil {
		return fmt.Errorf("restart machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) restart(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(m.dir, specName)); err != nil {
		return fmt.Errorf("it was never fully created: %w", err)
	}
	lifeline, err := m.connect(ctx, bootIDName)
	if err == nil {
		return errors.Join(errors.New("the machine is running"), lifeline.Close())
	}
	if !errors.Is(err, machine.ErrStopped) {
		return err
	}
	return m.start()
}

// Freeze implements [machine.Snapshotter]. Unlike a real runtime, it copies the
// disk.
func (m *Machine) Freeze(ctx context.Context, id string) error {
	if err := m.freeze(ctx, id); err != nil {
		return fmt.Errorf("freeze machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) freeze(ctx context.Context, id string) error {
	if !layerID.MatchString(id) {
		return fault.Invalid("layer %q: an id is snapshot-YYYYMMDD-<uuid> or bld-YYYYMMDD-<uuid>", id)
	}
	lifeline, err := m.connect(ctx, bootIDName)
	if err == nil {
		return errors.Join(errors.New("the machine is running"), lifeline.Close())
	}
	if !errors.Is(err, machine.ErrStopped) {
		return err
	}
	if _, err := os.Stat(m.r.layer(id)); err == nil {
		return fault.Conflict("layer %s already exists", id).Named("snapshot_exists")
	}
	half := m.r.layer(id) + ".new"
	if err := os.CopyFS(half, os.DirFS(m.Disk())); err != nil {
		return err
	}
	return os.Rename(half, m.r.layer(id))
}

// layer returns the folder of a frozen disk.
func (r *Runtime) layer(id string) string { return filepath.Join(r.dir, ".layers", id) }

// Stop implements [machine.Snapshotter]. It acts like kill -9 of PID 1.
func (m *Machine) Stop(ctx context.Context) error { return m.wait(ctx, []byte{1}) }

// Destroy implements [machine.Machine].
func (m *Machine) Destroy(ctx context.Context) error {
	if err := m.Stop(ctx); err != nil {
		return fmt.Errorf("destroy machine %s: %w", m.id, err)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("destroy machine %s: %w", m.id, err)
	}
	return nil
}

// listen listens on a socket in the machine's folder, whose path may exceed the
// limit of socket addresses.
func (m *Machine) listen(name string) (net.Listener, error) {
	dir, err := os.Open(m.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path through /proc is invalid later
	return l, nil
}

// connect connects to a socket in the machine's folder. The error wraps
// [machine.ErrStopped] if nothing listens there.
func (m *Machine) connect(ctx context.Context, name string) (net.Conn, error) {
	dir, err := os.Open(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, machine.ErrStopped
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, machine.ErrStopped
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c, err
}
