package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/need"
	"aloft/internal/policy"
	"aloft/internal/policy/calls"
)

var makeDockerImage = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../../../.bin/docker-image")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("../../../../hack/docker-image.sh", dir).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return "rootfs:" + dir, err
})

// dockerImage returns the name of an image with Debian's Docker.
func dockerImage(t testing.TB) string {
	t.Helper()
	need.Root(t)
	need.Command(t, "mmdebstrap")
	name, err := makeDockerImage()
	if err != nil {
		t.Fatalf("make the image: %v", err)
	}
	return name
}

// dockerRuntime returns a runtime whose machines may run Docker and contain the
// attack probe.
func dockerRuntime(t *testing.T) *Runtime {
	t.Helper()
	conf := armed(t)
	conf.Docker = true
	return start(t, conf)
}

// do runs a script in the machine as root, and returns its output.
func do(t testing.TB, m machine.Machine, script string) string {
	t.Helper()
	got := ask(t, m, "bash", "-c", "set -e; exec 2>&1; "+script)
	if got.Code != 0 {
		t.Fatalf("%s: exit %d: %s", script, got.Code, got.Output)
	}
	return strings.TrimSpace(got.Output)
}

// startDocker starts Docker as an environment's start command does.
func startDocker(t testing.TB, m machine.Machine) {
	t.Helper()
	do(t, m, asUser+"sudo service docker start; for i in $(seq 300); do docker info >/dev/null 2>&1 && exit; sleep 0.1; done; tail -20 /var/log/docker.log; exit 1")
}

// makeContainerImage builds the image "box" from a static busybox.
func makeContainerImage(t testing.TB, m machine.Machine) {
	t.Helper()
	do(t, m, `mkdir -p /tmp/box; cd /tmp/box; cp /bin/busybox /exec-daemon/sandbox .
cat > Dockerfile <<'END'
FROM scratch
COPY busybox sandbox /bin/
RUN ["/bin/busybox", "--install", "/bin"]
RUN mkdir /tmp /etc/kept && echo built > /built
END
docker build -q -t box .`)
}

// TestDocker runs Docker in a machine of runc as projects do: the service, both
// builders, limits, published ports, names, and Compose.
func TestDocker(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "outside") }))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	m := create(t, dockerRuntime(t), machine.Spec{
		Image: dockerImage(t), Network: opened(policy.AllowAll), Limits: machine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 1000},
	})
	startDocker(t, m)
	makeContainerImage(t, m)
	do(t, m, "docker run -d --name web -p 8088:80 box sh -c 'echo published > /tmp/index.html; httpd -f -p 80 -h /tmp'")
	do(t, m, `mkdir /tmp/project; cd /tmp/project; cat > docker-compose.yml <<'END'
version: "3"
services:
  web: {image: box, command: [sh, -c, "echo composed > /tmp/index.html; httpd -f -p 80 -h /tmp"], ports: ["8089:80"]}
  worker: {image: box, command: [sleep, "1000"], volumes: ["data:/data"]}
volumes: {data: {}}
END
docker-compose up -d`)
	const until = "for i in $(seq 100); do %[1]s && exit; sleep 0.1; done; %[1]s"
	for what, c := range map[string]struct{ command, want string }{
		"storage driver":       {"docker info -f '{{.Driver}}'", "overlay2"},
		"user":                 {asUser + "sudo docker run --rm box cat /built", "built"},
		"BuildKit":             {"cd /tmp/box; DOCKER_BUILDKIT=1 docker build -q -t kit . >/dev/null; docker run --rm kit cat /built", "built"},
		"memory limit":         {"docker run --rm -m 64m box sh -c 'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null'", "67108864"},
		"limit applies":        {"docker run --rm -m 64m box dd if=/dev/zero of=/dev/null bs=200M count=1 >/dev/null 2>&1 || echo killed", "killed"},
		"processes":            {"docker run --rm --pids-limit 10 box sh -c 'for i in $(seq 20); do sleep 9 & done' 2>&1 | grep -c -m1 fork", "1"},
		"published port":       {fmt.Sprintf(until, "curl -sS http://127.0.0.1:8088"), "published"},
		"on the address":       {"curl -sS http://172.30.0.2:8088", "published"},
		"port of Compose":      {fmt.Sprintf(until, "curl -sS http://127.0.0.1:8089"), "composed"},
		"names of Compose":     {"docker exec project_worker_1 wget -q -O- http://web", "composed"},
		"files can be removed": {"docker run --rm box sh -c 'rm /built; rm -r /etc/kept; ls -d /built /etc/kept 2>/dev/null; echo gone'", "gone"},
		"privileged":           {"docker run --rm --privileged box sh -c 'mount -t tmpfs none /tmp && echo mounted'", "mounted"},
		"host network":         {"docker run --rm --network host box wget -q -O- http://127.0.0.1:8088", "published"},
		"no network":           {"docker run --rm --network none box ls /sys/class/net", "lo"},
		"the way out":          {"docker run --rm box wget -q -O- http://172.30.0.1:" + port, "outside"},
		"nameserver":           {"docker run --rm box nslookup aloft.invalid 2>&1 | grep -o -m1 \"can't find aloft.invalid\"", "can't find aloft.invalid"},
		"metadata":             {"docker run --rm box wget -q -O- http://169.254.169.254/ 2>&1 | grep -c refused", "1"},
		"pause":                {"docker pause web >/dev/null; docker unpause web", "web"},
	} {
		if got := strings.TrimSpace(ask(t, m, "bash", "-c", c.command).Output); got != c.want {
			t.Errorf("%s: %s: got %q, want %q", what, c.command, got, c.want)
		}
	}
	recorded(t, m, func(c policy.Connection) bool { return c.Allowed && strings.HasSuffix(c.Address, ":"+port) })
	recorded(t, m, func(c policy.Connection) bool { return !c.Allowed && c.Address == "169.254.169.254:80" })
}

// TestDockerData checks that images and volumes survive a stop, and that a
// snapshot contains them: machines that start from it get copies of their own.
func TestDockerData(t *testing.T) {
	r := dockerRuntime(t)
	base := dockerImage(t)
	m := create(t, r, machine.Spec{Image: base, Network: anywhere}).(*Machine)
	startDocker(t, m)
	makeContainerImage(t, m)
	do(t, m, "docker run -d --name app --restart always -v data:/data box sh -c 'rm /built; mkfifo /data/pipe; sleep 100000'")
	add := func(m machine.Machine, line string) {
		t.Helper()
		do(t, m, "docker exec app sh -c 'echo "+line+" >> /data/file'")
	}
	holds := func(m machine.Machine, want string) {
		t.Helper()
		got := do(t, m, "docker exec app sh -c 'cat /data/file; ls /built 2>/dev/null; stat -c %F /data/pipe'; docker run --rm box cat /built")
		if want += " fifo built"; strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("the machine has %q, want %q", got, want)
		}
	}
	add(m, "one")
	restart(t, m)
	startDocker(t, m)
	holds(m, "one")
	add(m, "two")
	stop(t, m)
	id := layer.NewID(layer.Build)
	if err := m.Freeze(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(m.path("upper/" + dockerArchive)); err == nil {
		t.Error("the data is in the machine's new layer, too")
	}
	fork := createNamed(t, r, machine.Spec{ID: "m-2", Image: base, Layer: id, Network: anywhere})
	startDocker(t, fork)
	holds(fork, "one two")
	add(fork, "fork")
	restart(t, m)
	startDocker(t, m)
	holds(m, "one two")
	add(m, "three")
	holds(fork, "one two fork")
	holds(m, "one two three")
	// A snapshot of the fork replaces the data of the first.
	stop(t, fork)
	second := layer.NewID(layer.Build)
	if err := fork.Freeze(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	third := createNamed(t, r, machine.Spec{ID: "m-3", Image: base, Layer: second, Network: anywhere})
	startDocker(t, third)
	holds(third, "one two fork")
}

func stop(t testing.TB, m *Machine) {
	t.Helper()
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func restart(t testing.TB, m *Machine) {
	t.Helper()
	stop(t, m)
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// createNamed creates a machine with the id of its spec.
func createNamed(t *testing.T, r *Runtime, spec machine.Spec) *Machine {
	t.Helper()
	m, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return m.(*Machine)
}

// TestDockerDisk checks that the disk usage of a machine includes the files of
// its containers, also those that are deleted but still open.
func TestDockerDisk(t *testing.T) {
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t), Network: anywhere}).(*Machine)
	startDocker(t, m)
	makeContainerImage(t, m)
	do(t, m, "docker run -d --name app box sleep 100000")
	used := func() int64 {
		t.Helper()
		n, err := m.DiskBytes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := used()
	do(t, m, "docker exec app dd if=/dev/zero of=/file bs=1M count=20")
	if n := used(); n < before+20<<20 {
		t.Errorf("20 MiB in a container count as %d bytes", n-before)
	}
	do(t, m, "docker exec -d app sh -c 'exec 3</file; rm /file; sleep 1000'; for i in $(seq 100); do docker exec app ls /file >/dev/null || exit 0; sleep 0.1; done; exit 1")
	if n := used(); n < before+20<<20 {
		t.Errorf("20 MiB in a deleted file count as %d bytes", n-before)
	}
}

// TestDockerRights checks that only machines that have dockerd, on a server that
// allows it, get the rights that it needs.
func TestDockerRights(t *testing.T) {
	r := dockerRuntime(t)
	rights := func(r *Runtime, name string) string {
		t.Helper()
		m := createNamed(t, r, machine.Spec{ID: "m-4", Image: name})
		got := do(t, m, "grep CapBnd /proc/self/status | cut -f2; mount -t tmpfs none /mnt && echo mounts || true")
		if err := m.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := rights(r, dockerImage(t)); got != "000001ffffffffff\nmounts" {
		t.Errorf("with dockerd: %s", got)
	}
	if got := rights(newRuntime(t, t.TempDir(), r.conf.RuntimePath), dockerImage(t)); !strings.HasPrefix(got, "00000000a00425fb\nmount: ") {
		t.Errorf("with dockerd, not allowed: %s", got)
	}
	r.mapped = false
	if got := rights(r, dockerImage(t)); !strings.HasPrefix(got, "00000000a00425fb\nmount: ") {
		t.Errorf("with dockerd, without a user namespace: %s", got)
	}
}

// ownInDocker lists what root in a machine that may run Docker, or in a privileged
// container there, can do beyond what every machine's root can: all of it affects
// only the machine, or reads what the kernel tells everybody on a host.
var ownInDocker = map[string]string{
	"write /proc/sys/net/ipv4/ip_forward": "its own network", "make a cgroup": "below its limits", "stat /var/run/docker.sock": "its own",
	"stat /run/containerd/containerd.sock": "its own", "stat /host": "its own root",
	"read /proc/keys": "its own keys", "read /proc/interrupts": "statistics", "list /sys/firmware": "names",
	"mount tmpfs": "its own mounts", "mount proc": "its own mounts", "mount cgroup": "its own mounts", "mount overlay": "its own mounts",
	"bind mount": "its own mounts", "remount /proc/sys": "its own mounts", "remount /usr": "its own mounts", "unmount /proc/sys": "its own mounts",
	"pivot_root": "its own mounts", "fsopen": "its own mounts", "open_tree": "its own mounts", "mount_setattr": "its own mounts",
	"unmount /proc/kcore": "its own mounts", "new user namespace": "its own", "new mount namespace": "its own", "new net namespace": "its own",
	"new pid namespace": "its own", "new cgroup namespace": "its own", "setns": "its own", "ptrace of process 1": "its own", "sethostname": "its own name",
	"root of process 1": "its own",
}

// harmless are results of attempts that have no effect.
var harmless = []string{
	"EPERM", "EACCES", "EROFS", "ENOENT", "ENOSYS", "ENXIO", "ENODEV", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ECONNREFUSED", "ENETUNREACH", "EHOSTUNREACH",
	"EADDRNOTAVAIL", "ECONNRESET", "EINVAL", "no answer", "0 bytes", "0 entries", "not seen", "no further", "none", "",
}

// TestDockerAttacked makes all attempts of the attack probe with the rights of
// Docker: as root in the machine, and in a privileged container that shares
// everything with the machine.
func TestDockerAttacked(t *testing.T) {
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t), Network: anywhere, Limits: machine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 1000}})
	startDocker(t, m)
	makeContainerImage(t, m)
	const privileged = "docker run --rm --privileged --pid=host --network=host --ipc=host -v /:/host -v /run/aloft:/run/aloft box "
	const word, port, socket, layers = "aloft-no-such-word", "1", "aloft-no-such-socket", "/aloft-no-such-folder"
	for who, run := range map[string]string{"root": "/exec-daemon/sandbox ", "privileged container": privileged + "/bin/sandbox "} {
		all := strings.Replace(run, "/bin/sandbox", "unshare -m /bin/sandbox", 1)
		if who == "root" {
			all = "unshare -m " + run // the probe changes the root of its mount namespace
		}
		found := table(do(t, m, all+strings.Join([]string{word, port, socket, layers}, " ")))
		for name, results := range found {
			if strings.HasPrefix(name, "status ") || strings.HasPrefix(name, "namespace ") || ownInDocker[name] != "" || name == "list /run/aloft" {
				continue
			}
			for _, result := range results {
				if !slices.Contains(harmless, result) {
					t.Errorf("%s: %s: %s", who, name, result)
				}
			}
		}
		if len(found) < 80 || len(found["socket AF_VSOCK"]) == 0 || len(found["climb above the root"]) == 0 {
			t.Errorf("%s: the probe made only %d attempts", who, len(found))
		}
		if got := found["status Seccomp"]; !slices.Equal(got, []string{"2"}) {
			t.Errorf("%s: filter: %s", who, got)
		}
		found = table(do(t, m, run+"calls"))
		checkSockets(t, found["socket"], calls.Docker)
		for name, results := range found {
			for _, result := range results {
				ok := true
				switch {
				case strings.HasPrefix(name, "abi "):
					ok = result == "bad system call" || result == "ENOSYS"
				case strings.HasPrefix(name, "wide "):
					ok = result == "EPERM"
				case name == "limits with a cgroup namespace" && who == "root":
					ok = strings.HasSuffix(result, "permission denied") // in a container: the container's own
				case name == "mount type proc", name == "mount type sysfs", name == "mount type cgroup", name == "mount type cgroup2":
				case strings.HasPrefix(name, "mount type "):
					ok = result != "done"
				}
				if !ok {
					t.Errorf("%s: %s: %s", who, name, result)
				}
			}
		}
		if len(found["limits with a cgroup namespace"]) == 0 || len(found["mount type ext4"]) == 0 {
			t.Errorf("%s: the probe tried only %d kinds of calls", who, len(found))
		}
	}
}

// table returns the results in the output of the probe by name.
func table(output string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(output) {
		name, result, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		found[name] = append(found[name], result)
	}
	return found
}

// TestDockerLimits lets root in a machine use every right over its cgroups to get
// out of its limits, or to make the machine impossible to stop.
func TestDockerLimits(t *testing.T) {
	r := dockerRuntime(t)
	limits := machine.Limits{MemoryBytes: 128 << 20, CPUs: 0.5, PIDs: 100}
	m := create(t, r, machine.Spec{Image: dockerImage(t), Limits: limits}).(*Machine)
	// A cgroup of its own has no limits, but is below those of the machine.
	got := do(t, m, `for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
	for f in "$d"/memory.limit_in_bytes "$d"/pids.max "$d"/cpu.cfs_quota_us "$d"/devices.allow "$d"/memory.max "$d"/cpu.max; do
		[ ! -e $f ] || for v in -1 max 'a *:* rwm'; do (echo $v > $f) 2>/dev/null && echo "$f lifted"; done
	done
	[ ! -e $d/cgroup.procs ] || { mkdir $d/own; echo $$ > $d/own/cgroup.procs; } 2>/dev/null || true
done; cut -d: -f3 /proc/self/cgroup | sort -u`)
	if !strings.Contains(got, "/own") || strings.Contains(got, "lifted") {
		t.Errorf("the machine's cgroups: %s", got)
	}
	if got := ask(t, m, "bash", "-c", "for d in /sys/fs/cgroup/*; do echo $$ > $d/own/cgroup.procs; done 2>/dev/null; head -c 300m /dev/zero | tail | wc -c"); strings.TrimSpace(got.Output) == fmt.Sprint(300<<20) {
		t.Errorf("300 MiB fit into 128: %+v", got)
	}
	all, err := mountedHierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		for _, c := range h.limited() {
			for _, f := range h.files(c, limits) {
				got, err := os.ReadFile(filepath.Join(h.dir, m.inside(), f.name))
				if err != nil && !f.optional || err == nil && strings.TrimSpace(string(got)) != f.value {
					t.Errorf("%s is %q, %v; want %s", f.name, got, err, f.value)
				}
			}
		}
	}
	restart(t, m)
	if !slices.ContainsFunc(all, func(h hierarchy) bool { return !h.v2 && h.has("freezer") }) {
		return // version 2 ends frozen processes
	}
	// Cgroups deeper than any path, and a frozen machine.
	name := strings.Repeat("d", 200)
	do(t, m, "cd /sys/fs/cgroup/freezer; for i in $(seq 60); do mkdir "+name+"; cd "+name+`; done
sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > ./cgroup.procs; echo FROZEN > ./freezer.state
cd /sys/fs/cgroup/freezer; mkdir pod; echo 1 > pod/cgroup.procs; (sleep 0.3; echo FROZEN > pod/freezer.state) </dev/null >/dev/null 2>&1 &`)
	for wait := newBackoff(20 * time.Millisecond); ; {
		state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", m.inside(), "pod/freezer.state"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(state)) == "FROZEN" {
			break
		}
		if err := wait.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.DiskBytes(t.Context()); err != nil {
		t.Errorf("measure: %v", err)
	}
	restart(t, m)
	if got := do(t, m, "echo there"); got != "there" {
		t.Errorf("after a restart: %s", got)
	}
}

// TestDockerMounts has root in a machine that may run Docker try to change the
// mounts of the host's folders in it.
func TestDockerMounts(t *testing.T) {
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t)}).(*Machine)
	stop(t, m)
	shared := t.TempDir()
	if err := os.WriteFile(filepath.Join(shared, "file"), []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	rec, err := m.record()
	if err != nil {
		t.Fatal(err)
	}
	rec.Image.Binds = []image.Bind{{Source: shared, Target: "/srv"}}
	if err := m.writeRecord(rec); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := do(t, m, "cat /srv/file"); got != "of the host" {
		t.Errorf("the folder of the host has %q", got)
	}
	for _, attempt := range []string{
		"touch /srv/new", "mount -o remount,bind,rw /srv", "mount -o remount,rw /srv", "umount /srv", "umount -l /srv",
		"mkdir /x; mount --bind /srv /x; mount -o remount,bind,rw /x", "unshare -m mount -o remount,bind,rw /srv",
		"umount -l /var/lib/docker", "mount -o remount,bind,dev /", "mknod /var/lib/docker/device c 1 5",
	} {
		if got := ask(t, m, "sh", "-c", attempt); got.Code == 0 {
			t.Errorf("%s: %+v", attempt, got)
		}
	}
	ask(t, m, "sh", "-c", "touch /srv/new; echo changed > /srv/file")
	if entries, err := os.ReadDir(shared); err != nil || len(entries) != 1 {
		t.Errorf("the folder of the host has %v, %v", entries, err)
	}
	if data, err := os.ReadFile(filepath.Join(shared, "file")); err != nil || string(data) != "of the host" {
		t.Errorf("the file of the host has %q, %v", data, err)
	}
}

// TestDockerDataWithDevices starts a machine from Docker data that contains a device
// file, which no machine can have made.
func TestDockerDataWithDevices(t *testing.T) {
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t)}).(*Machine)
	stop(t, m)
	data, base := t.TempDir(), t.TempDir()
	if err := unix.Mknod(filepath.Join(data, "zero"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(base, dockerArchive)
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(layer.Pack(t.Context(), archive, data), archive.Close(), os.RemoveAll(m.path(dockerData))); err != nil {
		t.Fatal(err)
	}
	rec, err := m.record()
	if err != nil {
		t.Fatal(err)
	}
	rec.Image.Lower = append(rec.Image.Lower, base)
	if err := m.writeRecord(rec); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), `the device file "zero"`) {
		t.Errorf("got %v", err)
	}
}
