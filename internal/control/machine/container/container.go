// Package container makes machines with an OCI runtime: runc or crun, and
// gVisor's runsc for the strong class. Each machine is an overlay of image
// layers and a layer of its own, a bundle generated for it, and a container
// started detached, which lives on when this process dies.
//
// All that a machine has lies in one folder, DIR/machines/ID: what it was made
// from, its bundle, its upper layer, the mount point of its root, the runtime's
// own state and the folder of its socket. That folder, the cgroup named after
// it and the processes that carry its name are the whole truth: nothing else
// has to survive for a machine to be found again or removed, whoever was killed
// at whatever moment.
//
// A machine with a network has a namespace with one TAP device, whose other end
// is held by a gateway: a process started here that lives beside the machine and
// ends with it. One that dies before is started again. What it does with the
// packets is its own affair.
//
// Saved layers are package layer's. The package has no tools; it makes what it
// is told and takes it away again. It is over 2,000 lines because of all that a runtime, killed
// at any moment, may leave behind.
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

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/trash"
)

// Config is what a [Runtime] is made of.
type Config struct {
	Dir               string       // holds everything that this runtime makes
	RuntimePath       string       // runc, crun or runsc, for the usual class
	StrongRuntimePath string       // runsc, for the class "strong"; "" refuses that class
	Docker            bool         // machines of gVisor may run Docker
	Binaries          string       // folder with pod-daemon and exec-daemon, sandbox, rg where they exist
	Gateway           []string     // the command that ends a machine's network, without its flags; nil refuses machines with one
	Images            *image.Store // where machines' roots come from; nil is a store in Dir without credentials
	Logger            *slog.Logger // nil discards
}

// LayersDir is the folder, below Config.Dir, of the store of saved layers.
const LayersDir = "layers"

// Runtime is a [machine.Runtime]. Close it to wait for what it still does.
type Runtime struct {
	conf   Config
	log    *slog.Logger
	images *image.Store
	layers *layer.Store
	prefix string // begins the names of this runtime's cgroups

	binaries binaryLayer
	trash    *trash.Can

	ctx     context.Context    // of the work in the background
	stop    context.CancelFunc // ends it
	working sync.WaitGroup
	step    func(string) // between the steps of a change, for tests
	maxHeld int          // how many descriptors of a machine are looked at; less in tests
}

// New returns the runtime on conf.Dir and begins to remove what an earlier one
// on that folder left half removed. It needs root.
func New(conf Config) (*Runtime, error) {
	dir, err := filepath.Abs(conf.Dir)
	if err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	conf.Dir = dir
	if conf.RuntimePath == "" {
		return nil, errors.New("container runtime: no OCI runtime given")
	}
	if conf.Logger == nil {
		conf.Logger = slog.New(slog.DiscardHandler)
	}
	// Closed to everybody else: below lie set-uid programs of the machines.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("container runtime: %w", err)
	}
	for _, d := range []string{"machines", "trash"} {
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

// ImageDir is where the image store of a runtime on dir lies, on the same file
// system as the machines.
func ImageDir(dir string) string { return filepath.Join(dir, "images") }

// Close waits until what was destroyed is wholly removed, and ends what the
// runtime does in the background. Machines stay up, and the Runtime must not be
// used after it. Closing it twice is no error.
func (r *Runtime) Close() error {
	r.stop()
	r.working.Wait()
	r.trash.Wait()
	return r.layers.Close()
}

// Layers is the store of what Freeze has saved.
func (r *Runtime) Layers() *layer.Store { return r.layers }

// Images is the store that machines are made of.
func (r *Runtime) Images() *image.Store { return r.images }

var validID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

func checkID(id string) error {
	if !validID.MatchString(id) {
		return fmt.Errorf("machine ID %q: it has 1 to 63 letters, digits and -, and no - at either end", id)
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

// engine is the OCI runtime for a class.
func (r *Runtime) engine(class string) (engine, error) {
	switch class {
	case "":
		return newEngine(r.conf.RuntimePath), nil
	case "strong":
		if r.conf.StrongRuntimePath == "" {
			return engine{}, errors.New(`class "strong" needs gVisor's runsc, which this server does not have: build it with hack/build-runsc.sh and configure its path`)
		}
		eng := newEngine(r.conf.StrongRuntimePath)
		eng.docker = r.conf.Docker && eng.gvisor
		return eng, nil
	}
	return engine{}, fmt.Errorf(`class %q is unknown: it is "" or "strong"`, class)
}
