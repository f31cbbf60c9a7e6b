package container

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/cgroup"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/poll"
	"aloft/internal/policy/calls"
)

// ownInDocker lists what only root in a machine that may run Docker, or in a
// privileged container there, can do. Each of these affects only the machine,
// or reads data that the kernel shows to every process on a host.
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

// ownFileSystems are the types that a user namespace may mount. They show only
// data of the namespace, or data that every process on the host can read.
var ownFileSystems = []string{"proc", "sysfs", "cgroup", "cgroup2", "tmpfs", "ramfs", "devpts", "mqueue", "overlay", "binfmt_misc", "fuse"}

// TestDockerAttacked makes all attempts of the attack probe with Docker's
// rights: as root in the machine, and in a privileged container that shares all
// namespaces with the machine. What the probe looks for exists on the host.
func TestDockerAttacked(t *testing.T) {
	word, port, socket := targets(t)
	r := dockerRuntime(t)
	layers := r.conf.Dir
	m := create(t, r, machine.Spec{Image: dockerImage(t), Network: anywhere, Limits: machine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 1000}})
	if _, err := os.Stat(filepath.Join(layers, "machines")); err != nil {
		t.Fatal(err) // the probe looks for this folder
	}
	startDocker(t, m)
	makeContainerImage(t, m)
	// The probe ignores processes with its own name, which have the word as an
	// argument.
	const privileged = "docker run --rm --name probe --privileged --pid=host --network=host --ipc=host -v /:/host -v /run/aloft:/run/aloft box "
	for who, run := range map[string]string{"root": "/exec-daemon/sandbox ", "privileged container": privileged + "/bin/sandbox "} {
		all := strings.Replace(run, "/bin/sandbox", "unshare -m /bin/sandbox", 1)
		if who == "root" {
			all = "unshare -m " + run // the probe changes the root of its mount namespace
		}
		found := table(do(t, m, ": probe; "+all+strings.Join([]string{word, port, socket, layers}, " ")))
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
				case slices.Contains(ownFileSystems, strings.TrimPrefix(name, "mount type ")):
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

// targets starts a process, a listener on loopback and one on an abstract socket
// of the host. It returns a word of the process's command line, the port and the
// name of the socket.
func targets(t *testing.T) (word, port, socket string) {
	t.Helper()
	word = fmt.Sprintf("aloft-target-%d", os.Getpid())
	cmd := exec.CommandContext(t.Context(), "sleep", "1000000")
	cmd.Args[0] = word
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tcp.Close() })
	local, err := net.Listen("unix", "@"+word)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Close() })
	_, port, _ = net.SplitHostPort(tcp.Addr().String())
	return word, port, word
}

// table parses the probe's output into results by name.
func table(output string) map[string][]string {
	found := map[string][]string{}
	for line := range strings.Lines(output) {
		name, result, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
		found[name] = append(found[name], result)
	}
	return found
}

// TestDockerLimits has root in a machine use all its rights over cgroups,
// either to escape from its limits or to make the machine impossible to stop.
// Both must fail.
func TestDockerLimits(t *testing.T) {
	r := dockerRuntime(t)
	limits := machine.Limits{MemoryBytes: 128 << 20, CPUs: 0.5, PIDs: 100}
	m := create(t, r, machine.Spec{Image: dockerImage(t), Limits: limits}).(*Machine)
	// A cgroup that the machine creates has no limits of its own, but is below
	// the machine's cgroups.
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
	all, err := cgroup.Mounted()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range all {
		for _, c := range h.Limited() {
			for _, f := range h.Files(c, cgroup.Limits(limits)) {
				got, err := os.ReadFile(filepath.Join(h.Dir, m.inside(), f.Name))
				if err != nil && !f.Optional || err == nil && strings.TrimSpace(string(got)) != f.Value {
					t.Errorf("%s is %q, %v; want %s", f.Name, got, err, f.Value)
				}
			}
		}
	}
	restart(t, m)
	if !slices.ContainsFunc(all, func(h cgroup.Hierarchy) bool { return !h.V2 && h.Has("freezer") }) {
		return // on version 2, kill also ends frozen processes
	}
	// The machine nests cgroups beyond the maximum path length, and is frozen.
	// It must be possible to remove it nevertheless.
	name := strings.Repeat("d", 200)
	do(t, m, "cd /sys/fs/cgroup/freezer; for i in $(seq 60); do mkdir "+name+"; cd "+name+`; done
sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > ./cgroup.procs; echo FROZEN > ./freezer.state
cd /sys/fs/cgroup/freezer; mkdir pod; echo 1 > pod/cgroup.procs; (sleep 0.3; echo FROZEN > pod/freezer.state) </dev/null >/dev/null 2>&1 &`)
	for wait := poll.New(20 * time.Millisecond); ; {
		state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", m.inside(), "pod/freezer.state"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(state)) == "FROZEN" {
			break
		}
		if err := wait.Pause(t.Context()); err != nil {
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
// mounts of the host's folders.
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
// file, which no machine can have created.
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
