package container

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/userns"
	"aloft/internal/control/tcpmem"
	"aloft/internal/fault"
)

// makeNetworks creates network namespaces and holds them by descriptors until the
// kernel refuses one, and prints their number.
const makeNetworks = `
import ctypes, os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
libc = ctypes.CDLL(None)
assert libc.unshare(0x10000000) == 0
held = []
while len(held) < 3000 and libc.unshare(0x40000000) == 0: held.append(os.open("/proc/self/ns/net", os.O_RDONLY))
print(len(held))
`

// fillSockets fills the buffers of TCP connections to itself, and prints how many
// bytes they took.
const fillSockets = `
import socket
listener = socket.create_server(("127.0.0.1", 0))
held, total = [], 0
for n in range(200):
    ends = [socket.create_connection(listener.getsockname()), listener.accept()[0]]
    for s in ends:
        s.setblocking(False)
        try:
            while True: total += s.send(bytes(65536))
        except BlockingIOError: pass
    held += ends
print(total)
`

// TestSocketMemoryIsBounded has a machine fill the buffers of its sockets. They share
// one limit of the host's with the TCP connections of everybody.
func TestSocketMemoryIsBounded(t *testing.T) {
	all, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(h cgroup.Hierarchy) bool { return !h.V2 && h.Has("memory") }) {
		return // version 2 counts sockets towards memory.max
	}
	limit, err := cgroup.SocketMemory()
	if err != nil {
		t.Fatal(err)
	}
	m := create(t, newRuntime(t, t.TempDir(), engines(t)["runc"]), machine.Spec{Image: "host"}).(*Machine)
	got := ask(t, m, "python3", "-c", fillSockets)
	var n int64
	if _, err := fmt.Sscan(got.Output, &n); err != nil || n < 1<<20 || n > limit*3/2 {
		t.Errorf("sockets take %d MiB, %v: %+v; want at most %d", n>>20, err, got, limit>>20)
	}
}

// TestSocketsOfDockerAreFound has root in a machine that may run Docker move to a cgroup
// of its own, where version 1 of cgroups does not count sockets, and fill the buffers of
// connections in a network namespace of its own. The guard of the TCP memory must stop
// that machine, and no other. The connections are few, since all tests share the memory.
func TestSocketsOfDockerAreFound(t *testing.T) {
	r := dockerRuntime(t)
	m := create(t, r, machine.Spec{Image: dockerImage(t)}).(*Machine)
	other := createNamed(t, r, machine.Spec{ID: "m-2", Image: dockerImage(t)})
	if n, err := m.SocketBytes(t.Context()); err != nil || n > 1<<20 {
		t.Errorf("before: %d bytes, %v", n, err)
	}
	do(t, m, `mkdir -p /sys/fs/cgroup/memory/own && echo $$ > /sys/fs/cgroup/memory/own/cgroup.procs || true
cat > /fill.py <<'.'
`+strings.Replace(fillSockets, "200", "30", 1)+`
import sys, time
sys.stdout.flush()
time.sleep(1000)
.
rm -f /filled; unshare --net sh -c 'ip link set lo up; exec python3 /fill.py' > /filled 2>&1 </dev/null &
until [ -s /filled ]; do sleep 0.1; done`)
	var took int64
	if _, err := fmt.Sscan(do(t, m, "cat /filled"), &took); err != nil || took < 100<<20 {
		t.Fatalf("sockets take %d MiB, %v", took>>20, err)
	}
	if n, err := m.SocketBytes(t.Context()); err != nil || n < took {
		t.Errorf("measured %d MiB of %d MiB, %v", n>>20, took>>20, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	guard := tcpmem.New(tcpmem.Config{
		Machines: func(context.Context) ([]machine.SocketMeasured, error) {
			return []machine.SocketMeasured{other, m}, nil
		},
		Stop: func(ctx context.Context, id string, why error) error {
			defer cancel()
			if id != m.ID() || fault.Of(why).Code != "socket_limit" {
				t.Errorf("%s is stopped: %v", id, why)
				return nil
			}
			return m.Stop(ctx)
		},
		Host: func() (tcpmem.Host, error) { // a host whose memory this machine fills
			h, err := tcpmem.ReadHost()
			h.Low, h.Pressure = took/2, took
			return h, err
		},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err := guard.Run(ctx); err != nil {
		t.Error(err)
	}
	if m.Running() || !other.Running() {
		t.Errorf("the machine runs: %v; the other runs: %v", m.Running(), other.Running())
	}
}

// TestNetworksAreBounded has a user and root in a machine create network namespaces,
// most of whose memory the kernel charges to no cgroup. Root in a machine that may run
// Docker must not be able to raise the limit either. Such a machine has fewer, because
// in each of them the kernel may track connections, in memory that no cgroup counts.
func TestNetworksAreBounded(t *testing.T) {
	asUser := []string{"setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"}
	asRoot := []string{"sh", "-c", `(echo 100000 > /proc/sys/user/max_net_namespaces) 2>/dev/null; exec "$@"`, "sh"}
	limits := machine.Limits{MemoryBytes: 2560 << 20}
	inDocker, err := userns.Networks(true, limits.MemoryBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		r      *Runtime
		before []string
		want   int
	}{
		{"a user", newRuntime(t, t.TempDir(), engines(t)["runc"]), asUser, 1024},
		{"root", newRuntime(t, t.TempDir(), engines(t)["runc"]), asRoot, 1024},
		{"root with Docker", dockerRuntime(t), asRoot, inDocker},
	} {
		m := create(t, c.r, machine.Spec{Image: "host", Limits: limits}).(*Machine)
		got := ask(t, m, append(slices.Clone(c.before), "python3", "-c", makeNetworks)...)
		var n int
		if _, err := fmt.Sscan(strings.TrimSpace(got.Output), &n); err != nil || n < c.want/2 || n > c.want {
			t.Errorf("%s: %d network namespaces, %v: %+v; want at most %d", c.name, n, err, got, c.want)
		}
	}
}

// trackConnections makes the kernel of a network namespace track connections, and prints
// how many it tracks.
const trackConnections = `
set -e
ip link set lo up
iptables -A INPUT -m conntrack --ctstate NEW -j ACCEPT
python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(1, 2001): s.sendto(b"", ("127.0.0.1", port))
'
cat /proc/sys/net/netfilter/nf_conntrack_count
`

// TestTrackedConnectionsAreBounded has root in a machine that may run Docker track
// connections in a network namespace of its own. The connections of all namespaces that
// the machine may have must fit into as much memory as its limit.
func TestTrackedConnectionsAreBounded(t *testing.T) {
	const memory = 2560 << 20
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t), Limits: machine.Limits{MemoryBytes: memory}}).(*Machine)
	got := ask(t, m, "unshare", "--net", "sh", "-c", trackConnections)
	var tracked int
	if _, err := fmt.Sscan(got.Output, &tracked); err != nil || tracked < 1000 {
		t.Fatalf("the namespace tracks %d connections, %v: %+v", tracked, err, got)
	}
	var each, networks int64
	if _, err := fmt.Sscan(do(t, m, "cat /proc/sys/net/netfilter/nf_conntrack_max"), &each); err != nil {
		t.Fatal(err)
	}
	got = ask(t, m, "python3", "-c", makeNetworks)
	if _, err := fmt.Sscan(got.Output, &networks); err != nil || networks == 0 || networks*each*256 > memory {
		t.Errorf("%d namespaces track %d connections each, %v: %+v; want at most %d bytes", networks, each, err, got, memory)
	}
}
