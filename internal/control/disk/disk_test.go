package disk

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
	"aloft/internal/need"
)

const mib = 1 << 20

// host simulates a disk of 1,000 MiB with machines on it.
type host struct {
	*Guard
	t        *testing.T
	others   int64 // bytes used by everything except machines
	holds    map[string]int64
	measured map[string]int
	stopped  map[string]error
	tooMany  map[string]bool // machines whose open files cannot be counted
}

func newHost(t *testing.T, limit int64) *host {
	t.Helper()
	h := &host{t: t, holds: map[string]int64{}, measured: map[string]int{}, stopped: map[string]error{}}
	h.Guard = &Guard{Config: Config{
		Dir: t.TempDir(), Limit: limit, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Machines: func(context.Context) (all []Holder, err error) {
			for _, id := range slices.Sorted(maps.Keys(h.holds)) {
				all = append(all, held{h: h, id: id})
			}
			return all, nil
		},
		Stop: func(_ context.Context, id string, why error) error {
			h.stopped[id] = why
			return nil
		},
	}}
	h.space = func() (free, total int64, err error) {
		free = 1000*mib - h.others
		for _, n := range h.holds {
			free -= n
		}
		return max(0, free), 1000 * mib, nil
	}
	if err := h.begin(); err != nil {
		t.Fatal(err)
	}
	return h
}

// held is a machine on the disk.
type held struct {
	h  *host
	id string
}

func (m held) ID() string { return m.id }

func (m held) Running() bool { return m.h.stopped[m.id] == nil }

func (m held) DiskBytes(context.Context) (int64, error) {
	m.h.measured[m.id]++
	if m.h.tooMany[m.id] && m.Running() {
		return 0, fmt.Errorf("measure: %w", machine.ErrTooManyFiles)
	}
	return m.h.holds[m.id], nil
}

// write makes a machine write n bytes and then makes the guard poll.
func (h *host) write(id string, n int64) {
	h.holds[id] += n
	h.look(h.t.Context(), false)
}

// onlyStopped checks that exactly the given machines were stopped, each with
// the code disk_limit and a hint.
func (h *host) onlyStopped(ids ...string) {
	h.t.Helper()
	if got := slices.Sorted(maps.Keys(h.stopped)); !slices.Equal(got, ids) {
		h.t.Fatalf("stopped: %q; want %q", got, ids)
	}
	for _, err := range h.stopped {
		if f := fault.Of(err); f.Code != "disk_limit" || f.Advice == "" {
			h.t.Errorf("stopped with %v", err)
		}
	}
}

func TestAMachineOverItsLimitIsStopped(t *testing.T) {
	synctest.Test(t, testAMachineOverItsLimitIsStopped)
}

func testAMachineOverItsLimitIsStopped(t *testing.T) {
	h := newHost(t, 100*mib)
	h.write("a", 60*mib)
	h.write("b", 10*mib)
	h.write("a", 40*mib)
	h.onlyStopped()
	h.write("a", 1)
	h.onlyStopped("a")
	if f := fault.Of(h.stopped["a"]); !strings.Contains(f.Message, "100 MiB") {
		t.Error(f.Message)
	}
	// A stopped machine that was restarted to clean up may grow only a little.
	delete(h.stopped, "a")
	time.Sleep(lookEvery)
	h.write("a", 0)
	h.write("a", mib)
	h.onlyStopped()
	h.write("a", 3*mib)
	h.onlyStopped("a")
	// Without a limit the machine may grow.
	h = newHost(t, 0)
	h.write("a", 900*mib)
	h.onlyStopped()
}

// TestAMachineThatIsQuick checks that the guard stops a new or restarted
// machine that exceeds its limit before the first poll, but not a machine whose
// usage an earlier server tolerated.
func TestAMachineThatIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 100*mib)
		h.write("older", 200*mib)
		h.write("new", 200*mib)
		h.onlyStopped("new")
		h.write("sleeper", 10*mib)
		h.stopped["sleeper"] = fault.Exhausted("nobody uses it").Named("disk_limit").Hint("use it")
		time.Sleep(lookEvery)
		h.look(t.Context(), false)
		delete(h.stopped, "sleeper")
		h.write("sleeper", 200*mib)
		h.onlyStopped("new", "sleeper")
		// The machine may not fill the freed space again.
		delete(h.stopped, "new")
		h.write("new", -90*mib)
		time.Sleep(measureEvery)
		h.look(t.Context(), false)
		h.onlyStopped("sleeper")
		h.write("new", 80*mib)
		h.onlyStopped("new", "sleeper")
	})
}

// TestWhatOthersFreeHidesNoMachine checks that a machine is stopped even if
// others free as much space as it uses, so that the free space stays the same.
func TestWhatOthersFreeHidesNoMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 100*mib)
		h.others = 500 * mib
		h.write("a", mib)
		h.others -= 200 * mib
		h.write("a", 200*mib)
		h.onlyStopped()
		time.Sleep(measureSoon) // the simulated measurement takes no time
		h.write("a", 0)
		h.onlyStopped("a")
	})
}

// TestMachinesAreMeasuredWhenThereIsCause checks that the guard measures no
// machine while the free space does not shrink.
func TestMachinesAreMeasuredWhenThereIsCause(t *testing.T) {
	synctest.Test(t, testMachinesAreMeasuredWhenThereIsCause)
}

func testMachinesAreMeasuredWhenThereIsCause(t *testing.T) {
	h := newHost(t, 100*mib)
	h.write("a", 50*mib)
	h.write("b", 90*mib)
	clear(h.measured)
	for range 100 {
		h.look(t.Context(), false)
	}
	h.others += 5 * mib
	h.look(t.Context(), false)
	if len(h.measured) > 0 {
		t.Errorf("measured %v", h.measured)
	}
	h.others += 10 * mib // either machine may have written this
	h.look(t.Context(), false)
	if h.measured["b"] != 1 || h.measured["a"] != 0 {
		t.Errorf("measured %v", h.measured)
	}
	// Space freed by one machine does not hide the growth of another.
	for range 6 {
		h.write("a", 10*mib)
		h.others -= 15 * mib
		h.look(t.Context(), false)
		h.others += 15 * mib
		h.look(t.Context(), false)
	}
	h.onlyStopped("a")
}

func TestTheLastOfTheDisk(t *testing.T) { synctest.Test(t, testTheLastOfTheDisk) }

func testTheLastOfTheDisk(t *testing.T) {
	h := newHost(t, 0) // the disk is low below 50 MiB; here the reserve of 15 MiB takes no space
	if !h.reserve.isComplete() {
		t.Fatal("nothing is in reserve")
	}
	h.write("calm", 300*mib)
	h.write("greedy", 100*mib)
	h.write("greedy", 540*mib) // 60 MiB are free
	h.onlyStopped()
	if err := h.Room(); err != nil {
		t.Error(err)
	}
	h.write("calm", mib)
	h.write("greedy", 20*mib) // 39 MiB are free
	h.onlyStopped("greedy")
	if f := fault.Of(h.Room()); f.Code != "disk_full" {
		t.Errorf("Room = %v", f)
	}
	h.write("calm", 10*mib) // calm uses only a small part of the free space
	h.onlyStopped("greedy")
	if !h.reserve.isComplete() {
		t.Error("the reserve went too early")
	}
	h.write("calm", 19*mib) // 10 MiB are free
	h.onlyStopped("calm", "greedy")
	if h.reserve.isComplete() {
		t.Error("the reserve is not given up")
	}
	delete(h.holds, "greedy")
	h.look(t.Context(), false)
	if !h.reserve.isComplete() {
		t.Error("the reserve is not taken again")
	}
}

// TestFilesOutsideOfMachines fills the disk by artifacts and logs of agents, which no
// machine's disk contains. The agent whose files have grown since the disk became low is
// blamed, and not one that had many before.
func TestFilesOutsideOfMachines(t *testing.T) { synctest.Test(t, testFilesOutsideOfMachines) }

func testFilesOutsideOfMachines(t *testing.T) {
	h := newHost(t, 0)
	files := map[string]int64{"old": 900 * mib}
	last := maps.Clone(files)
	h.Outside = func(_ context.Context, id string, fresh bool) int64 {
		if fresh {
			last[id] = files[id]
		}
		return last[id]
	}
	h.others = 300 * mib
	for _, id := range []string{"old", "quiet", "writes"} {
		h.write(id, mib)
	}
	for h.free > h.floor && len(h.stopped) == 0 {
		time.Sleep(measureEvery)
		h.others += 50 * mib
		files["writes"] += 50 * mib
		h.look(t.Context(), false)
	}
	if h.onlyStopped("writes"); len(h.stopped) > 0 && !strings.Contains(h.stopped["writes"].Error(), "artifacts and logs used 650 MiB more") {
		t.Errorf("stopped because of %v", h.stopped["writes"])
	}
	// Other programs fill the rest: nobody else is stopped.
	time.Sleep(measureEvery)
	h.others += 20 * mib
	h.look(t.Context(), false)
	h.onlyStopped("writes")
}

func TestAStoreThatFindsNoRoom(t *testing.T) { synctest.Test(t, testAStoreThatFindsNoRoom) }

func testAStoreThatFindsNoRoom(t *testing.T) {
	h := newHost(t, 0)
	h.write("a", 10*mib)
	h.write("b", 10*mib)
	h.others = 900 * mib
	h.look(t.Context(), false)
	h.holds["a"] += 80 * mib
	if !h.Full() {
		t.Error("there is no use in trying again")
	}
	h.onlyStopped("a")
	if h.reserve.isComplete() {
		t.Error("the reserve is not given up")
	}
	h.others = 1000 * mib
	if h.Full() {
		t.Error("there is nothing left to give up")
	}
	// If others fill the disk, no machine is stopped.
	h = newHost(t, 0)
	h.write("a", 10*mib)
	h.others = 990 * mib
	h.look(t.Context(), false)
	h.onlyStopped()
}

func TestTheReserveTakesRoom(t *testing.T) {
	r := reserve{path: filepath.Join(t.TempDir(), "reserve"), size: 5*mib + 1}
	if r.release() || r.isComplete() {
		t.Error("there is none yet")
	}
	if err := r.take(); err != nil || !r.isComplete() {
		t.Fatal(err)
	}
	if info, err := os.Stat(r.path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if !r.release() || r.isComplete() {
		t.Error("it is not given up")
	}
	r.path = filepath.Join(r.path, "nowhere")
	if r.take() == nil || r.isComplete() {
		t.Error("it cannot be there")
	}
}

// TestWhoHidesItsFilesIsStopped has a machine keep so many files open that its
// usage cannot be measured while the disk fills up. The guard must stop it.
func TestWhoHidesItsFilesIsStopped(t *testing.T) {
	h := newHost(t, 0)
	h.write("innocent", 10*mib)
	h.write("hostile", 10*mib)
	h.onlyStopped()
	h.tooMany = map[string]bool{"hostile": true}
	h.write("hostile", 960*mib)
	h.onlyStopped("hostile")
}

// TestInodes simulates a file system that runs out of inodes.
func TestInodes(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1g,nr_inodes=1000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	g, err := New(Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Room(); err != nil {
		t.Fatal(err)
	}
	for i := range 970 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f := fault.Of(g.Room()); f.Code != "disk_full" {
		t.Errorf("with 30 inodes of 1,000 left, there is room: %v", f)
	}
}
