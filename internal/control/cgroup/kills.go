package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A KillCounter counts the processes of cgroups that the kernel has killed for
// lack of memory, as [Hierarchy.Kills] does. It reads the cgroups again only after
// the kernel has killed a process somewhere on the host. It is safe for concurrent
// use; the zero KillCounter is ready to use.
type KillCounter struct {
	mu   sync.Mutex
	seen map[string]killCount

	host func() (int, bool) // for tests; default HostKills
	now  func() time.Time   // for tests; default time.Now
}

// killCount is the last kill count read of a cgroup.
type killCount struct {
	id    uint64    // id of the cgroup: when a machine restarts, it gets another cgroup
	kills int       // kills in the cgroup and the cgroups below it
	host  int       // kills on the host before kills was read
	since time.Time // when host was first read
	final bool      // kills is valid as long as host does not change
}

// SettleTime is how long after a kill on the host every query reads the cgroup
// again. The kernel counts a kill for the host before it counts it for the
// cgroup.
const SettleTime = time.Second

// Kills returns how many processes were killed in the named cgroup and the
// cgroups below it. It returns 0 if the cgroup is gone or the kernel does not
// count kills.
func (k *KillCounter) Kills(name string) int {
	all, err := Mounted()
	if err != nil {
		return 0
	}
	return k.kills(all, name)
}

func (k *KillCounter) kills(all []Hierarchy, name string) (n int) {
	host, now := HostKills, time.Now
	if k.host != nil {
		host, now = k.host, k.now
	}
	onHost, counted := host()
	id := cgroupID(all, name)
	k.mu.Lock()
	last, known := k.seen[name]
	k.mu.Unlock()
	same := known && counted && last.id == id && last.host == onHost
	if same && last.final {
		return last.kills
	}
	for _, h := range all {
		n = max(n, h.Kills(name))
	}
	next := killCount{id: id, kills: n, host: onHost, since: now()}
	if same {
		next.final, next.since = next.since.Sub(last.since) > SettleTime, last.since
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == 0 {
		delete(k.seen, name)
		return n
	}
	if k.seen == nil {
		k.seen = map[string]killCount{}
	}
	k.seen[name] = next
	return n
}

// Forget drops the cached kill count of a cgroup.
func (k *KillCounter) Forget(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.seen, name)
}

// cgroupID returns a number that identifies the cgroup until the host's next
// boot: no later cgroup of that name has it. It returns 0 if there is no such
// cgroup.
func cgroupID(all []Hierarchy, name string) (id uint64) {
	for _, h := range all {
		var st unix.Stat_t
		if (h.V2 || h.Has("memory")) && unix.Stat(filepath.Join(h.Dir, name), &st) == nil {
			id = 31*id + st.Ino
		}
	}
	return id
}

// vmstat is /proc/vmstat. It is opened once, and each read starts at offset 0.
var vmstat = sync.OnceValues(func() (*os.File, error) { return os.Open("/proc/vmstat") })

// HostKills returns how many processes the kernel has killed for lack of memory
// since the host was booted, in all cgroups. It returns false if the kernel, older
// than Linux 4.13, does not count them.
func HostKills() (int, bool) {
	f, err := vmstat()
	if err != nil {
		return 0, false
	}
	var buffer [32 << 10]byte
	n, _ := f.ReadAt(buffer[:], 0) // io.EOF is expected, because the file is shorter than the buffer
	_, rest, ok := bytes.Cut(buffer[:n], []byte("\noom_kill "))
	if !ok {
		return 0, false
	}
	number, _, ok := bytes.Cut(rest, []byte("\n"))
	kills, err := strconv.Atoi(string(number))
	return kills, ok && err == nil
}
