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
	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
)

// The memory image of a sleeping machine is a folder of the machine. The
// folder's name tells which of three states the image is in. So, even after a
// crash, a machine never resumes from an image that is incomplete or was used
// before. An image cannot be used twice, because the disk of a resumed machine
// no longer matches it.
const (
	memoryBeingSaved = "memory.new"
	memorySaved      = "memory"
	memoryInUse      = "memory.used"
	memorySums       = "sums.json" // file in the image's folder, written last
)

// wokenFile is a file in the folder of the socket. It tells pod-daemon that its
// machine was restored from memory.
const wokenFile = "woken"

// quietLimit is the timeout for the guest to close its socket. The guest gives
// its connections one second; the rest is for an overloaded host.
const quietLimit = 20 * time.Second

// keptFree is how many bytes must stay free on the disk, assuming that the
// machine's memory is written uncompressed.
const keptFree = 512 << 20

// memoryLimit is the timeout for saving or restoring memory, which can be
// several gigabytes.
const memoryLimit = 10 * time.Minute

// sums describes a memory image, so that a restore can verify it.
type sums struct {
	Engine string            // the engine that wrote the image
	Files  map[string]string // hex SHA-256 by file name
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
		// Let the guest continue. If it has ended, this has no effect.
		return errors.Join(err, m.tellAwake(), m.forget(memoryBeingSaved))
	}
	return nil
}

// save has the engine write the memory image and end the machine. The caller
// holds the lock.
func (m *Machine) save(ctx context.Context, eng engine, letGo func(context.Context) error) error {
	if err := letGo(ctx); err != nil {
		return err
	}
	// From here on, the caller's cancellation must have no effect, because it
	// would kill the machine's processes.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), memoryLimit, errors.New("timed out"))
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
	// The engine ends the machine; clear kills the remaining processes.
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
	// The image is valid only together with the disk state, so flush both before
	// the image gets its final name.
	if err := syncDisk(m.dir); err != nil {
		return err
	}
	if err := os.Rename(image, m.path(memorySaved)); err != nil {
		return err
	}
	m.r.step("memory: saved")
	return nil
}

// awaitQuiet waits until the guest has closed its socket, as it was asked to.
func (m *Machine) awaitQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, quietLimit, errors.New("timed out waiting for the guest to close its socket"))
	defer cancel()
	wait := poll.New(20 * time.Millisecond)
	for {
		if _, err := os.Lstat(m.path("run/" + socketName)); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if err := wait.Pause(ctx); err != nil {
			return err
		}
	}
}

// wake resumes the machine from its saved memory, if there is any. If that
// fails, woken is false and the machine stays stopped; it can start from its
// disk. The caller holds the lock and has called stand.
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

// goOn resumes the machine from a memory image. If that fails, it returns false
// and leaves the machine stopped as before.
func (m *Machine) goOn(ctx context.Context, eng engine, rec record, image string) (woken bool, err error) {
	// The caller's cancellation must have no effect from here on, because it would
	// kill the machine's processes.
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), memoryLimit, errors.New("timed out"))
	defer cancel()
	err = m.verify(image, eng)
	if err == nil {
		err = m.start(ctx, eng, rec, image)
	}
	if err == nil {
		m.r.step("memory: woken")
		return true, nil
	}
	m.r.log.Warn("cannot resume a machine from its memory; starting it from its disk", "machine", m.id, "error", err)
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
		err = fmt.Errorf("the machine is not suspended on layer %s", layer)
	}
	if err == nil {
		err = m.r.layers.KeepMemory(layer, m.path(memorySaved))
	}
	if err != nil {
		return fmt.Errorf("keep the memory of machine %s: %w", m.id, err)
	}
	return nil
}

// wakeInterrupted lets the guest continue if the server died while it prepared
// to save the machine. A machine whose memory was being written ends, and
// starts from its disk.
func (m *Machine) wakeInterrupted() {
	if _, err := os.Lstat(m.path(memoryBeingSaved)); err == nil {
		_ = m.tellAwake() // if this fails, the guest continues after a timeout
	}
}

// tellAwake creates wokenFile. Root in the machine controls the folder, so
// tellAwake first removes any file of that name, and follows no link.
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

// roomFor returns an error that wraps [unix.ENOSPC] if saving the memory in use
// would leave too little free space on the disk.
func (m *Machine) roomFor() error {
	all, err := cgroup.Mounted()
	if err != nil {
		return err
	}
	var used int64
	for _, h := range all {
		for _, name := range []string{"memory.current", "memory.usage_in_bytes"} {
			data, err := os.ReadFile(filepath.Join(h.Dir, m.inside(), name))
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
		return fmt.Errorf("the machine uses %d MiB of memory, but the disk has only %d MiB free: %w", used>>20, free>>20, unix.ENOSPC)
	}
	return nil
}

// Asleep implements [machine.Checkpointer].
func (m *Machine) Asleep() bool {
	_, err := os.Lstat(m.path(memorySaved))
	return err == nil && !m.running()
}

// forget removes a memory image in the background.
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
		return fmt.Errorf("checksums: %w", err)
	}
	engine, err := eng.identity()
	if err != nil {
		return err
	}
	if want.Engine != engine {
		return fmt.Errorf("%s is not the build that saved it", filepath.Base(eng.path))
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

// identity distinguishes builds of the engine: one build may misread memory
// saved by another.
func (e engine) identity() (string, error) {
	info, err := os.Stat(e.path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d bytes of %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano)), nil
}

// syncDisk flushes the file system that contains path.
func syncDisk(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return unix.Syncfs(int(dir.Fd()))
}

// refusal returns an engine's reason for not saving a machine: the first line
// of its output, without the stack trace that follows.
func refusal(out []byte) string {
	words, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if strings.Contains(words, "bound host socket") {
		return "a program listens on a unix socket on the disk, outside of /tmp and /run"
	}
	return strings.ToValidUTF8(words[:min(len(words), maxWords)], "")
}
