package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"aloft/internal/control/disk"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/egress"
	"aloft/internal/control/hostd"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/ledger"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/mirror"
	"aloft/internal/fault"
	"aloft/internal/policy"
	"aloft/internal/server/engine"
)

// OpenHost opens the part of the host that the server uses, in this process.
// user is the server's user id. If this host cannot create machines, the result
// contains the reason; an error means that the configuration is invalid.
func OpenHost(o Options, c Config, user int, logger *slog.Logger) (*hostd.Opened, error) {
	// As in Open: the users of machines must be able to read files in them,
	// regardless of the inherited umask.
	syscall.Umask(0o022)
	git, err := mirror.NewLocal(mirror.LocalConfig{
		Dir: filepath.Join(o.Data, "mirrors"), Files: c.Git.AllowFile, Private: []string{o.Data}, Environ: os.Environ(), Server: user,
	})
	if err != nil {
		return nil, err
	}
	logs := egress.Logs(filepath.Join(o.Data, "connections"))
	folders := map[string]hostd.Folder{
		"connections": ledger.Dir(logs), "images": ledger.Dir(container.ImageDir(MachinesDir(o.Data))), "build": ledger.Dir(filepath.Join(o.Data, "build")),
	}
	h := &hostd.Opened{Host: hostd.Host{Git: git, Logs: logs, Folders: folders, Close: func() error { return nil }}}
	if err := container.CanLink(); err != nil {
		h.NoNetwork = err.Error()
	}
	runtime, err := newRuntime(o, c, logs, logger)
	if err != nil {
		h.Machines, h.NoMachines = noRuntime{err.Error()}, err.Error()
		h.Allow, h.AllowImage = func(machine.Spec) error { return nil }, func(string) error { return nil }
		return h, nil //nolint:nilerr // the result contains the error
	}
	network := c.Machine.Egress.Network()
	if h.NoNetwork != "" && c.Machine.Egress.Mode == "" {
		network = policy.Network{}
	}
	room := func() error { return disk.Room(o.Data) }
	runtime.Images().SetRoom(room)
	builds := &dockerfiles{options: o, config: c, network: network, images: runtime.Images()}
	if err := dockerfile.Sweep(buildWorkDir(o.Data)); err != nil {
		logger.Error("cannot remove leftovers of Dockerfile builds", "error", err)
	}
	h.Machines, h.Layers, h.Dockerfiles = runtime, runtime.Layers(), builds
	h.Images = hostImages{runtime.Images(), o.Data, c.Machine.Image}
	h.Close = func() error { return errors.Join(builds.Close(), runtime.Close(), runtime.Images().Close()) }
	h.AllowImage = func(name string) error { return allowImage(name, c.Machine.Image) }
	h.Allow = func(spec machine.Spec) error { return allow(spec, c.Machine, runtime.Layers()) }
	return h, nil
}

// allow returns an error unless the configuration permits the machine. This
// limits an attacker who has taken over the server.
func allow(spec machine.Spec, c machineConfig, layers hostd.Layers) error {
	most := c.limits()
	for _, l := range []struct {
		name      string
		has, most float64
	}{
		{"memory", float64(spec.Limits.MemoryBytes), float64(most.MemoryBytes)},
		{"processors", spec.Limits.CPUs, most.CPUs},
		{"processes", float64(spec.Limits.PIDs), float64(most.PIDs)},
	} {
		if l.most > 0 && (l.has <= 0 || l.has > l.most) {
			return fault.Denied("a machine may not have more %s than configured: %v, not %v", l.name, l.has, l.most)
		}
	}
	if l, err := layers.Layer(spec.Layer); err == nil && l.Image == spec.Image {
		return nil // an image that an administrator configured earlier
	}
	return allowImage(spec.Image, c.Image)
}

// allowImage rejects images in folders of this host, except the default image.
func allowImage(name, defaultImage string) error {
	if name != defaultImage && (strings.HasPrefix(name, "rootfs:") || strings.HasPrefix(name, "oci:")) {
		return fault.Denied("the image %s is on the server's own disk, and is not its default image", name)
	}
	return nil
}

// hostImages implements [hostd.Images].
type hostImages struct {
	store        *image.Store
	data         string
	defaultImage string
}

// Prepare implements [hostd.Images].
func (i hostImages) Prepare(ctx context.Context, name string) error {
	_, err := i.store.Prepare(ctx, name, nil)
	return err
}

// Prune implements [hostd.Images].
func (i hostImages) Prune(ctx context.Context, o image.PruneOptions) (image.Pruned, error) {
	needs, err := container.Needs(MachinesDir(i.data))
	if err != nil {
		return image.Pruned{}, err
	}
	o.Keep = slices.Concat(o.Keep, needs, []string{i.defaultImage})
	return i.store.Prune(ctx, o)
}

// newRuntime returns the container runtime, with the binaries embedded in this program.
func newRuntime(o Options, c Config, logs egress.Logs, logger *slog.Logger) (*container.Runtime, error) {
	bin, err := container.Install(o.Embedded, filepath.Join(o.Data, "bin"))
	if err != nil {
		return nil, fmt.Errorf("install the machine binaries: %w", err)
	}
	for _, path := range []string{c.Machine.Runtime, c.Machine.Strong} {
		if path == "" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("OCI runtime: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	images, err := OpenImages(o.Data, c)
	if err != nil {
		return nil, err
	}
	if why := images.Unconfined(); why != nil && os.Geteuid() == 0 {
		logger.Warn("the server itself unpacks images, without confinement", "reason", why)
	}
	return container.New(container.Config{
		Images: images, Gateway: []string{self, "gateway"}, ConnectionLogs: logs,
		Dir: MachinesDir(o.Data), RuntimePath: cmp.Or(c.Machine.Runtime, bin.Runc),
		StrongRuntimePath: c.Machine.Strong, Docker: c.Machine.Docker, Binaries: bin.Dir, Logger: logger,
	})
}

// noRuntime is the runtime of a host that cannot create machines. Its errors say why.
type noRuntime struct{ why string }

// Create implements [machine.Runtime].
func (r noRuntime) Create(context.Context, machine.Spec) (machine.Machine, error) {
	return nil, fault.Unavailable("this host cannot make machines: %s", r.why).Named("no_runtime").
		Hint("run `aloft doctor` on the server to see what is missing and how to fix it")
}

// Open implements [machine.Runtime].
func (r noRuntime) Open(_ context.Context, id string) (machine.Machine, error) {
	return nil, fmt.Errorf("machine %s: %w", id, machine.ErrNotFound)
}

// List implements [machine.Runtime].
func (r noRuntime) List(context.Context) ([]string, error) { return nil, nil }

// dockerfiles implements [hostd.Dockerfiles]. It chooses an engine of the host at the
// first build.
type dockerfiles struct {
	options Options
	config  Config
	network policy.Network
	images  *image.Store

	mu      sync.Mutex
	builder *dockerfile.Builder // nil before the first build
}

// Ready implements [hostd.Dockerfiles].
func (d *dockerfiles) Ready() error {
	if err := engine.Find(d.config.Images.engine()); err != nil {
		return fault.NotImplemented("this server cannot build Dockerfiles: no builder is installed").Named("no_image_builder").
			Hint("run `aloft doctor` on the server to see how to install one").Because(err)
	}
	return nil
}

// Build implements [hostd.Dockerfiles].
func (d *dockerfiles) Build(ctx context.Context, spec dockerfile.Spec, out func(line string)) (string, error) {
	b, err := d.open()
	if err != nil {
		return "", err
	}
	name, _, err := b.Build(ctx, spec, out)
	return name, err
}

func (d *dockerfiles) open() (*dockerfile.Builder, error) {
	if err := d.Ready(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.builder == nil {
		b, err := OpenBuilder(d.options.Embedded, d.options.Data, d.config, d.network, d.images)
		if err != nil {
			return nil, err
		}
		d.builder = b
	}
	return d.builder, nil
}

// opened returns the builder, or nil before the first build.
func (d *dockerfiles) opened() *dockerfile.Builder {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.builder
}

// builds returns the running builds.
func (d *dockerfiles) builds() []*dockerfile.RunningBuild {
	if b := d.opened(); b != nil {
		return b.RunningBuilds()
	}
	return nil
}

// Running implements [hostd.Dockerfiles].
func (d *dockerfiles) Running() (ids []string) {
	for _, b := range d.builds() {
		ids = append(ids, b.ID())
	}
	return ids
}

// DiskBytes implements [hostd.Dockerfiles].
func (d *dockerfiles) DiskBytes(ctx context.Context, id string) (int64, error) {
	for _, b := range d.builds() {
		if b.ID() == id {
			return b.DiskBytes(ctx)
		}
	}
	return 0, nil // the build has ended
}

// Stop implements [hostd.Dockerfiles].
func (d *dockerfiles) Stop(id string, why error) bool {
	b := d.opened()
	return b != nil && b.Stop(id, why)
}

// Prune implements [hostd.Dockerfiles]. Afterwards, the next builds run all
// their steps, and "aloft image build" downloads all packages.
func (d *dockerfiles) Prune(ctx context.Context) error {
	if err := os.RemoveAll(PackagesDir(d.options.Data)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.options.Data, "build")); err != nil || d.Ready() != nil || len(d.builds()) > 0 {
		return nil //nolint:nilerr // there is no cache, or it is in use
	}
	b, err := d.open()
	if err == nil {
		err = b.Prune(ctx)
	}
	if fault.Is(err, fault.KindConflict) {
		return nil // another process is building
	}
	return err
}

// Has implements [hostd.Dockerfiles].
func (d *dockerfiles) Has(name string) bool { return d.images.Has(name) }

// Close stops the engine.
func (d *dockerfiles) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.builder == nil {
		return nil
	}
	return d.builder.Engine.Close()
}

// runningBuild is a running Dockerfile build of a host, as a [disk.Holder].
type runningBuild struct {
	host *hostd.Host
	id   string
}

// ID implements [disk.Holder].
func (b runningBuild) ID() string { return b.id }

// Running implements [disk.Holder].
func (b runningBuild) Running() bool { return true }

// DiskBytes implements [disk.Holder].
func (b runningBuild) DiskBytes(ctx context.Context) (int64, error) {
	return b.host.Dockerfiles.DiskBytes(ctx, b.id)
}

var (
	_ hostd.Layers = (*layer.Store)(nil)
	_ disk.Holder  = runningBuild{}
)
