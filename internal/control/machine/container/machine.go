package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
	"aloft/internal/control/cgroup"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/control/machine/container/userns"
)

// Machine is a [machine.Machine]. It holds only names; all its state is on
// disk.
type Machine struct {
	r      *Runtime
	id     string
	dir    string
	cgroup string // name of its cgroup, relative to the root of each hierarchy
}

// record describes how a machine was created. It is stored in the machine's
// folder for restarts.
type record struct {
	Spec  machine.Spec
	Image image.Image
	// Layer is the layer below the upper layer: first Spec.Layer, later the last
	// one frozen.
	Layer string
	// Freezing is the layer that a freeze in progress turns the upper layer into.
	// After a crash it may be set although the layer has already been saved.
	Freezing string

	below []string // directories of Layer and the layers below it, topmost first
}

// ID implements [machine.Machine].
func (m *Machine) ID() string { return m.id }

func (m *Machine) path(name string) string { return filepath.Join(m.dir, name) }

// create creates the machine. made is true once create has created the
// machine's folder, even if a later step fails: the caller may remove that
// folder, but not one that existed before.
func (m *Machine) create(ctx context.Context, spec machine.Spec) (made bool, err error) {
	eng, err := m.r.engine(spec.Class)
	if err != nil {
		return false, err
	}
	bin, err := m.r.binaries.path(m.r.makeBinaries)
	if err != nil {
		return false, err
	}
	// A layer needs the image on which it was saved, even if the image's name
	// now refers to another image.
	name := spec.Image
	if l, err := m.r.layers.Layer(spec.Layer); err == nil && l.Image == spec.Image {
		name = l.Content()
	}
	img, err := m.r.images.Prepare(ctx, name, nil)
	if err != nil {
		return false, err
	}
	img.Lower = append([]string{bin}, img.Lower...)

	if err := os.Mkdir(m.dir, 0o700); err != nil {
		return false, err
	}
	unlock, err := m.lock(ctx)
	if err != nil {
		return true, err
	}
	defer unlock()
	for _, d := range []string{"bundle", "work", "rootfs"} {
		if err := os.Mkdir(m.path(d), 0o755); err != nil {
			return true, err
		}
	}
	rec := record{Spec: spec, Image: img, Layer: spec.Layer}
	if err := m.stand(&rec); err != nil {
		return true, err
	}
	if err := seedUpper(m.path("upper"), spec.Network.Mode != ""); err != nil {
		return true, err
	}
	if err := m.writeRecord(rec); err != nil {
		return true, err
	}
	if memory := m.r.layers.Memory(spec.Layer); spec.Alive && memory != "" {
		if woken, err := m.goOn(ctx, eng, rec, memory); woken || err != nil {
			return true, err
		}
	}
	return true, m.start(ctx, eng, rec, "")
}

// start mounts the root and runs the container. If memory is not "", the
// container resumes from the memory image in that folder. The caller holds the
// lock.
func (m *Machine) start(ctx context.Context, eng engine, rec record, memory string) error {
	network := rec.Spec.Network.Mode != ""
	limits := rec.Spec.Limits
	if eng.gvisor {
		limits = gvisorLimits(limits)
	}
	prepared := make(chan error, 1)
	go func() { // while the namespaces are created, which takes milliseconds
		prepared <- errors.Join(os.Mkdir(m.path("state"), 0o755), m.makeCgroups(limits))
	}()
	space := &userns.Space{} // of the host
	var err error
	if m.r.mapped && !eng.gvisor {
		space, err = m.openUserSpace(rec, eng.docker)
	}
	prepareErr := <-prepared
	if err != nil {
		return err
	}
	defer func() { _ = space.Close() }() // once the machine runs, its processes keep the namespaces alive
	if prepareErr != nil {
		return prepareErr
	}
	if err := m.mountRun(space.First); err != nil {
		return err
	}
	if memory != "" {
		if err := os.WriteFile(m.path("run/"+wokenFile), nil, 0o600); err != nil {
			return err
		}
	}
	at := hostPaths{rootfs: m.path("rootfs"), run: m.path("run"), cgroup: "/" + m.inside()}
	online := func(context.Context) error { return nil }
	if network {
		l, wait, err := m.startGateway(rec.Spec, space.Network)
		if err != nil {
			return err
		}
		// From here on, the machine's processes and the egress process keep the
		// link open.
		defer func() { _ = l.Close() }()
		online = wait
		at.netns = namespacePath(l.Namespace)
	}
	if space.User != nil {
		at.userns, at.rootfs = namespacePath(space.User), m.r.rootPoint()
		if eng.docker {
			if err := m.prepareDocker(ctx, rec, space.First); err != nil {
				return fmt.Errorf("docker: %w", err)
			}
			at.docker = true
		}
	}
	if eng.docker && eng.gvisor {
		if err := m.appendLines(rec, dockerDefaults, gvisorOptions); err != nil {
			return fmt.Errorf("docker: %w", err)
		}
	}
	config, err := bundleConfig(rec.Spec, rec.Image, at, eng, hostFacts())
	if err != nil {
		return err
	}
	if err := atomicfile.WriteUnsynced(m.path("bundle/config.json"), config, 0o600); err != nil {
		return err
	}
	// The egress process starts in parallel with the following steps.
	if space.User != nil {
		err = m.runApart(func() error {
			if err := m.r.makeRootPoint(); err != nil {
				return err
			}
			err := m.mountRoot(rec, at.rootfs, func(target string, lower []string, upper, work string) error {
				return layer.MountMapped(target, lower, upper, work, space.Layers)
			})
			if err == nil && at.docker {
				err = m.mountForDocker(rec, at.rootfs, space)
			}
			if err != nil {
				return err
			}
			return eng.run(ctx, m, space.First, network, memory)
		})
	} else if err = m.mountRoot(rec, at.rootfs, layer.Mount); err == nil {
		err = eng.run(ctx, m, 0, network, memory)
	}
	if err != nil {
		return err
	}
	if err := m.remember(); err != nil {
		return err
	}
	if err := online(ctx); err != nil {
		return err
	}
	if network {
		m.r.keepGateway(m)
	}
	return nil
}

// runBounds are the mount options of the folder that a machine shares with the
// server.
const runBounds = "size=64k,nr_inodes=32,mode=0755,uid=%d,gid=%d"

// mountRun mounts a new tmpfs for the folder of the machine's socket. This
// discards stale sockets, links and other files of the last boot. The tmpfs is
// small, because root in the machine can write to it and the disk limit does
// not cover it. owner is the host's id for root in the machine.
func (m *Machine) mountRun(owner int) error {
	run := m.path("run")
	if err := layer.Unmount(run); err != nil {
		return err
	}
	if err := os.RemoveAll(run); err != nil {
		return err
	}
	if err := os.Mkdir(run, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", run, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf(runBounds, owner, owner)); err != nil {
		return &os.PathError{Op: "mount", Path: run, Err: err}
	}
	return unix.Mount("", run, "", unix.MS_PRIVATE, "")
}

// Restart implements [machine.Machine].
func (m *Machine) Restart(ctx context.Context) error {
	if err := m.restart(ctx); err != nil {
		return fmt.Errorf("restart machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) restart(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if m.running() {
		return errors.New("the machine is running")
	}
	rec, err := m.record()
	if err != nil {
		return err
	}
	if err := m.r.hasMemoryFor(rec.Spec); err != nil {
		return err
	}
	eng, err := m.r.engine(rec.Spec.Class)
	if err != nil {
		return err
	}
	if err := m.clear(ctx); err != nil {
		return err
	}
	if err := m.stand(&rec); err != nil {
		return err
	}
	if woken, err := m.wake(ctx, eng, rec); woken || err != nil {
		return err
	}
	if err := m.renewBinaries(&rec); err != nil {
		return err
	}
	err = m.start(ctx, eng, rec, "")
	if err != nil {
		err = errors.Join(err, m.clear(context.WithoutCancel(ctx)))
	}
	return err
}

// renewBinaries replaces a stopped machine's programs by those of this version:
// after an upgrade the old programs do not match the server.
func (m *Machine) renewBinaries(rec *record) error {
	bin, err := m.r.binaries.path(m.r.makeBinaries)
	if err != nil || len(rec.Image.Lower) == 0 || rec.Image.Lower[0] == bin {
		return err
	}
	rec.Image.Lower = append([]string{bin}, rec.Image.Lower[1:]...) // create puts the programs' layer first
	return m.writeRecord(*rec)
}

// record reads how the machine was created.
func (m *Machine) record() (record, error) {
	var rec record
	data, err := os.ReadFile(m.path("spec.json"))
	if err != nil {
		return rec, fmt.Errorf("it was never fully created: %w", err)
	}
	return rec, json.Unmarshal(data, &rec)
}

// Destroy implements [machine.Machine]. When it returns, no process, mount or
// name of the machine is left; its files are deleted in the background.
func (m *Machine) Destroy(ctx context.Context) error {
	if err := m.destroy(ctx); err != nil {
		return fmt.Errorf("destroy machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) destroy(ctx context.Context) error {
	unlock, err := m.lock(ctx)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	if err := m.clear(ctx); err != nil {
		return err
	}
	return m.r.trash.Discard(m.dir, m.id)
}

// clear removes everything of the machine except its files: processes, cgroups,
// mounts and the runtime's state. It does not use the runtime, which may have
// died in the middle of its work.
func (m *Machine) clear(ctx context.Context) error {
	if err := m.kill(ctx); err != nil {
		return err
	}
	if err := cgroup.Remove(ctx, m.cgroup); err != nil {
		return err
	}
	m.r.kills.Forget(m.cgroup)
	// runsc keeps an empty network namespace for its helper mounted in its state
	// folder.
	for _, name := range []string{"rootfs", "run", "state/null-netns"} {
		if err := layer.Unmount(m.path(name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"state", "link", "init.json", "init.pid"} {
		if err := os.RemoveAll(m.path(name)); err != nil {
			return err
		}
	}
	return m.giveIDsBack()
}

// seedUpper writes the files that every machine has in its own layer.
func seedUpper(upper string, network bool) error {
	id, err := machineID()
	if err != nil {
		return err
	}
	etc := filepath.Join(upper, "etc")
	if err := os.Mkdir(etc, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if network {
		if err := os.WriteFile(filepath.Join(etc, "resolv.conf"), []byte(link.Resolver), 0o644); err != nil {
			return err
		}
		if err := seedBrowsers(etc); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(etc, "machine-id"), []byte(id+"\n"), 0o444)
}

// seedBrowsers turns off Encrypted Client Hello in Chromium and Chrome: an
// allow list of hosts refuses connections that hide the server's name.
func seedBrowsers(etc string) error {
	for _, browser := range []string{"chromium", "opt/chrome"} {
		dir := filepath.Join(etc, browser, "policies/managed")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "aloft-network.json"), []byte(`{"EncryptedClientHelloEnabled": false}`+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
