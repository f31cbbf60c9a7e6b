package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/atomicfile"
	"aloft/internal/control/machine"
)

// The memory of a machine that sleeps is a folder of the machine's. It has one
// of three names, so that whoever is killed at whatever moment, no image is gone
// on with that is half written, or that has been gone on with before: its machine
// has changed the disk since.
const (
	memoryBeingSaved = "memory.new"
	memorySaved      = "memory"
	memoryInUse      = "memory.used"
	memorySums       = "sums.json" // in the folder, written last
)

// wokenFile tells the pod-daemon of a machine that has been started from its
// memory that it is awake; it is in the folder of the socket.
const wokenFile = "woken"

// quietLimit bounds how long the guest may take to let go of its socket: what is
// connected has a second to go, the rest is for a host that has much to do.
const quietLimit = 20 * time.Second

// keptFree is what is left of the disk, in bytes, beside what the memory of a
// machine may take there uncompressed.
const keptFree = 512 << 20

// memoryLimit bounds how long the memory of a machine may take, either way: it is
// some gigabytes at most.
const memoryLimit = 10 * time.Minute

// sums is what is known of an image.
type sums struct {
	Engine string            // what wrote it
	Files  map[string]string // the SHA-256 of each, in hex
}

var _ machine.Checkpointer = (*Machine)(nil)

// Checkpoint implements [machine.Checkpointer].
func (m *Machine) Checkpoint(ctx context.Context, letGo func(context.Context) error) error {
	if err := m.checkpoint(ctx, letGo); err != nil {
		return fmt.Errorf("save the memory of machine %s: %w", m.id, err)
	}
	return nil
}

func (m *Machine) checkpoint(ctx context.Context, letGo func(context.Context) error) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := m.record()
	if err != nil {
		return err
	}
	eng, err := m.r.engine(rec.Spec.Class)
	if err != nil {
		return err
	}
	if !eng.gvisor {
		return fmt.Errorf("%w by %s", machine.ErrNoMemory, filepath.Base(eng.path))
	}
	if !m.running() {
		return machine.ErrStopped
	}
	if err := m.roomFor(); err != nil {
		return err
	}
	if err := m.save(ctx, eng, letGo); err != nil {
		// The guest need not wait any longer. One that has ended does not look.
		return errors.Join(err, m.tellAwake(), m.forget(memoryBeingSaved))
	}
	return nil
}

// save has the engine write the image, and the machine end. The lock is held.
func (m *Machine) save(ctx context.Context, eng engine, letGo func(context.Context) error) error {
	if err := letGo(ctx); err != nil {
		return err
	}
	// From here on to stop half way would cost the machine its processes.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), memoryLimit, errors.New("it takes too long"))
	defer cancel()
	if err := m.awaitQuiet(ctx); err != nil {
		return err
	}
	for _, name := range []string{memoryBeingSaved, memorySaved, memoryInUse} {
		if err := m.forget(name); err != nil {
			return err
		}
	}
	image := m.path(memoryBeingSaved)
	if err := os.Mkdir(image, 0o700); err != nil {
		return err
	}
	m.r.step("memory: begun")
	out, err := eng.command(ctx, m, "--root="+m.path("state"), "checkpoint", "--image-path="+image, "--compression=flate-best-speed", "--exclude-committed-zero-pages", m.id).CombinedOutput()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%s: %w: %s", filepath.Base(eng.path), err, refusal(out))
	}
	m.r.step("memory: written")
	// It ends by itself; what does not is killed, with what belongs to it.
	if err := m.clear(ctx); err != nil {
		return err
	}
	sum, err := m.sum(image)
	if err != nil {
		return err
	}
	if sum.Engine, err = eng.identity(); err != nil {
		return err
	}
	data, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteUnsynced(filepath.Join(image, memorySums), data, 0o600); err != nil {
		return err
	}
	// The image and the disk that it was written over go together: both, or none.
	if err := syncDisk(m.dir); err != nil {
		return err
	}
	if err := os.Rename(image, m.path(memorySaved)); err != nil {
		return err
	}
	m.r.step("memory: saved")
	return nil
}

// awaitQuiet waits until the guest has let go of its socket, which it has been
// asked to.
func (m *Machine) awaitQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quietLimit, errors.New("the machine does not let go of its socket"))
	defer cancel()
	wait := newBackoff(20 * time.Millisecond)
	for {
		if _, err := os.Lstat(m.path("run/" + socketName)); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if err := wait.pause(ctx); err != nil {
			return err
		}
	}
}

// wake starts the machine from its memory, if it was saved. It is not where that
// cannot be: then the machine is stopped, on its disk. The lock is held, and the
// machine stands.
func (m *Machine) wake(ctx context.Context, eng engine, rec record) (woken bool, err error) {
	for _, name := range []string{memoryInUse, memoryBeingSaved} {
		if err := m.forget(name); err != nil {
			return false, err
		}
	}
	image := m.path(memoryInUse)
	err = os.Rename(m.path(memorySaved), image)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.r.step("memory: in use")
	woken, err = m.goOn(ctx, eng, rec, image)
	return woken, errors.Join(err, m.forget(memoryInUse))
}

// goOn starts the machine from an image, or says that it is as it was before.
func (m *Machine) goOn(ctx context.Context, eng engine, rec record, image string) (woken bool, err error) {
	// Who wanted the machine may go away meanwhile: its processes are not to.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), memoryLimit, errors.New("it takes too long"))
	defer cancel()
	err = m.verify(image, eng)
	if err == nil {
		err = m.start(ctx, eng, rec, image)
	}
	if err == nil {
		m.r.step("memory: woken")
		return true, nil
	}
	m.r.log.Warn("a machine cannot go on from its memory, and starts from its disk", "machine", m.id, "error", err)
	ctx = context.WithoutCancel(ctx)
	return false, errors.Join(m.clear(ctx), m.stand(&rec))
}

// KeepMemory implements [machine.Checkpointer].
func (m *Machine) KeepMemory(ctx context.Context, layer string) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return fmt.Errorf("keep the memory of machine %s: %w", m.id, err)
	}
	defer unlock()
	rec, err := m.record()
	if err == nil && (rec.Layer != layer || !m.Asleep()) {
		err = fmt.Errorf("it does not sleep on %s", layer)
	}
	if err == nil {
		err = m.r.layers.KeepMemory(layer, m.path(memorySaved))
	}
	if err != nil {
		return fmt.Errorf("keep the memory of machine %s: %w", m.id, err)
	}
	return nil
}

// wakeInterrupted has the guest go on whose server died while it was to be saved.
// One that is being saved ends, and starts from its disk.
func (m *Machine) wakeInterrupted() {
	if _, err := os.Lstat(m.path(memoryBeingSaved)); err == nil {
		_ = m.tellAwake() // or else it goes on by itself in a while
	}
}

// tellAwake tells pod-daemon that it is awake. Root in the machine controls the
// folder: what is there under that name goes, and no link is followed.
func (m *Machine) tellAwake() error {
	dir, err := unix.Open(m.path("run"), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	if err := unix.Unlinkat(dir, wokenFile, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(dir, wokenFile, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// roomFor returns an error that wraps [unix.ENOSPC] where the memory that the
// machine has in use would not leave enough of the disk.
func (m *Machine) roomFor() error {
	all, err := mountedHierarchies()
	if err != nil {
		return err
	}
	var used int64
	for _, h := range all {
		for _, name := range []string{"memory.current", "memory.usage_in_bytes"} {
			data, err := os.ReadFile(filepath.Join(h.dir, m.inside(), name))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && bad == nil {
				used = max(used, n)
			}
		}
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(m.dir, &disk); err != nil {
		return err
	}
	if free := int64(disk.Bavail) * disk.Bsize; free < used+keptFree {
		return fmt.Errorf("%d MiB are in use, and %d MiB free on the disk: %w", used>>20, free>>20, unix.ENOSPC)
	}
	return nil
}

// Asleep implements [machine.Checkpointer].
func (m *Machine) Asleep() bool {
	_, err := os.Lstat(m.path(memorySaved))
	return err == nil && !m.running()
}

// forget removes an image, in the background.
func (m *Machine) forget(name string) error {
	err := m.r.trash.Discard(m.path(name), m.id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (m *Machine) sum(image string) (sums, error) {
	s := sums{Files: map[string]string{}}
	entries, err := os.ReadDir(image)
	if err != nil {
		return s, err
	}
	for _, e := range entries {
		if e.Name() == memorySums {
			continue
		}
		path := filepath.Join(image, e.Name())
		if err := os.Chmod(path, 0o600); err != nil {
			return s, err
		}
		if s.Files[e.Name()], err = sumOf(path); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (m *Machine) verify(image string, eng engine) error {
	data, err := os.ReadFile(filepath.Join(image, memorySums))
	if err != nil {
		return err
	}
	var want sums
	if err := json.Unmarshal(data, &want); err != nil {
		return fmt.Errorf("its sums: %w", err)
	}
	engine, err := eng.identity()
	if err != nil {
		return err
	}
	if want.Engine != engine {
		return fmt.Errorf("%s is another than the one that saved it", filepath.Base(eng.path))
	}
	got, err := m.sum(image)
	if err != nil {
		return err
	}
	for name, sum := range want.Files {
		if got.Files[name] != sum {
			return fmt.Errorf("%s is damaged", name)
		}
	}
	return nil
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// identity tells one build of the engine from another: memory that one saved
// another may misread.
func (e engine) identity() (string, error) {
	info, err := os.Stat(e.path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), nil
}

// syncDisk has the file system that path is on write down all that it holds back.
func syncDisk(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return unix.Syncfs(int(dir.Fd()))
}

// refusal is why an engine does not save a machine: its first line, for below
// it is its stack.
func refusal(out []byte) string {
	words, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if strings.Contains(words, "bound host socket") {
		return "a program listens on a unix socket that is on the disk, and not in /tmp or /run"
	}
	return strings.ToValidUTF8(words[:min(len(words), maxWords)], "")
}
