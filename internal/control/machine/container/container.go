// Package container runs machines with an OCI runtime: runc or crun, and
// gVisor's runsc for the class "strong". Each machine consists of an overlay of
// image layers with its own upper layer, a generated bundle, and a detached
// container that keeps running when the server dies.
//
// Everything of a machine is in one folder, DIR/machines/ID: its spec, its
// bundle, its upper layer, the mount point of its root, the runtime's state and
// the folder of its socket. That folder, the cgroup named after it and the
// processes whose arguments name it are the complete state. From these the
// server can find or remove a machine, even if any process was killed at any
// moment.
//
// A machine with a network has a namespace with one TAP device. The other end
// of the device belongs to an egress process, which this package starts and
// restarts, and which ends with the machine. Package egress decides what that
// process does with the packets.
//
// Package layer keeps saved layers. The packages below this one handle features
// of the kernel: the network device, user namespaces, the system call filter,
// the identity of processes, and the log of the memory killer. The package is
// over 2,000 lines long because it must clean up everything that a runtime
// leaves behind when killed at any moment.
package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/egress"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/trash"
)

// Config holds the settings of a [Runtime].
type Config struct {
	Dir               string       // where this runtime creates all its files
	RuntimePath       string       // runc, crun or runsc, for the default class
	StrongRuntimePath string       // runsc, for the class "strong"; if "", that class is refused
	Docker            bool         // whether machines that have dockerd may run it
	Binaries          string       // the folder with pod-daemon and, if present, exec-daemon, sandbox and rg
	Gateway           []string     // the command of the egress process, without its flags; if nil, machines with a network are refused
	ConnectionLogs    egress.Logs  // the connection logs of machines; "" means that they have none
	Images            *image.Store // images for the machines' roots; nil means a store in Dir without credentials
	Logger            *slog.Logger // nil means no logging
}

// LayersDir is the folder of the store of saved layers, relative to Config.Dir.
const LayersDir = "layers"

// Runtime is a [machine.Runtime]. Close waits for its background work.
type Runtime struct {
	conf   Config
	log    *slog.Logger
	images *image.Store
	layers *layer.Store
	prefix string // the prefix of this runtime's cgroup names

	binaries binaryLayer
	trash    *trash.Can

	ctx     context.Context    // context of the background work
	stop    context.CancelFunc // cancels ctx
	working sync.WaitGroup
	step    func(string) // called between the steps of a change, for tests
	mapped  bool         // machines of runc and crun have user namespaces
	kills   cgroup.KillCounter
	maxHeld int // the maximum number of a machine's descriptors to inspect; lower in tests
}

// New returns the runtime on conf.Dir and starts to finish, in the background,
// removals that an earlier runtime on that folder did not finish. It needs
// root.
func New(conf Config) (*Runtime, error) {
	dir, err := filepath.Abs(conf.Dir)
	if err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	conf.Dir = dir
	if conf.RuntimePath == "" {
		return nil, errors.New("container runtime: no OCI runtime configured")
	}
	if conf.Logger == nil {
		conf.Logger = slog.New(slog.DiscardHandler)
	}
	// Only root may enter, since the machines' disks contain set-uid programs.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	for _, d := range []string{"machines", "trash", "ids"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("container runtime: %w", err)
		}
	}
	if conf.Images == nil {
		if conf.Images, err = image.Open(ImageDir(dir), image.Options{}); err != nil {
			return nil, fmt.Errorf("container runtime: %w", err)
		}
	}
	layers, err := layer.Open(filepath.Join(dir, LayersDir), conf.Logger)
	if err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	sum := sha256.Sum256([]byte(dir))
	r := &Runtime{
		conf:    conf,
		log:     conf.Logger,
		images:  conf.Images,
		layers:  layers,
		step:    func(string) {},
		maxHeld: maxHeld,
		prefix:  "aloft-" + hex.EncodeToString(sum[:4]) + "-",
	}
	if err := canMap(conf.RuntimePath, dir); err == nil {
		r.mapped = true
	} else {
		r.log.Warn("machines run without user namespaces: root in a machine is root on the host", "reason", err)
		if conf.Docker && !newEngine(conf.RuntimePath).gvisor {
			r.log.Warn("machines of runc and crun cannot run Docker without user namespaces")
		}
	}
	r.trash = trash.Open(filepath.Join(dir, "trash"), r.log)
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.working.Go(func() { r.keepLogsShort(r.ctx) })
	r.tend()
	ids, err := r.List(r.ctx)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	for _, id := range ids {
		if m := r.handle(id); m.running() {
			m.wakeInterrupted()
			r.keepGateway(m)
		}
	}
	return r, nil
}

// ImageDir returns the folder of the image store of a runtime on dir. It is on
// the same file system as the machines.
func ImageDir(dir string) string { return filepath.Join(dir, "images") }

// CanLink returns nil if machines on this host can have a network, and otherwise
// says what is missing.
func CanLink() error { return link.CanMake() }

// Close stops the background work and waits until destroyed machines are fully
// removed. Machines keep running. The Runtime must not be used afterwards;
// closing it again is a no-op.
func (r *Runtime) Close() error {
	r.stop()
	r.working.Wait()
	r.trash.Wait()
	return r.layers.Close()
}

// Layers returns the store of the layers that Freeze saves.
func (r *Runtime) Layers() *layer.Store { return r.layers }

// Images returns the store of the machines' images.
func (r *Runtime) Images() *image.Store { return r.images }

var validID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("invalid machine ID %q: use 1 to 63 letters, digits and hyphens, without a hyphen at either end", id)
	}
	return nil
}

// Create implements [machine.Runtime].
func (r *Runtime) Create(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	if err := checkID(spec.ID); err != nil {
		return nil, err
	}
	if err := checkSpec(spec); err != nil {
		return nil, fmt.Errorf("create machine %s: %w", spec.ID, err)
	}
	if err := r.hasMemoryFor(spec); err != nil {
		return nil, err
	}
	m := r.handle(spec.ID)
	made, err := m.create(ctx, spec)
	if err != nil {
		err = fmt.Errorf("create machine %s: %w", spec.ID, err)
		if made {
			err = errors.Join(err, m.Destroy(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return m, nil
}

// Open implements [machine.Runtime].
func (r *Runtime) Open(_ context.Context, id string) (machine.Machine, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrNotFound, err)
	}
	m := r.handle(id)
	if _, err := os.Lstat(m.dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("open machine %s: %w", id, machine.ErrNotFound)
		}
		return nil, fmt.Errorf("open machine %s: %w", id, err)
	}
	return m, nil
}

// List implements [machine.Runtime].
func (r *Runtime) List(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.conf.Dir, "machines"))
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if checkID(e.Name()) == nil {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func (r *Runtime) handle(id string) *Machine {
	return &Machine{r: r, id: id, dir: filepath.Join(r.conf.Dir, "machines", id), cgroup: r.prefix + id}
}

// engine returns the OCI runtime for a machine class.
func (r *Runtime) engine(class string) (engine, error) {
	switch class {
	case "":
		eng := newEngine(r.conf.RuntimePath)
		eng.docker = r.conf.Docker
		return eng, nil
	case "strong":
		if r.conf.StrongRuntimePath == "" {
			return engine{}, errors.New(`class "strong" needs gVisor's runsc, which this server does not have: build it with hack/build-runsc.sh and configure its path`)
		}
		eng := newEngine(r.conf.StrongRuntimePath)
		eng.docker = r.conf.Docker
		return eng, nil
	}
	return engine{}, fmt.Errorf(`unknown class %q: use "" or "strong"`, class)
}
