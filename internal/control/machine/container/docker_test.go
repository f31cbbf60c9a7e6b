package container

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/need"
	"aloft/internal/policy"
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
func dockerRuntime(t testing.TB) *Runtime {
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

// startDocker starts Docker as an environment's start command does. It checks that
// the service mounts no cgroup hierarchies.
func startDocker(t testing.TB, m machine.Machine) {
	t.Helper()
	out := do(t, m, asUser+"sudo service docker start; for i in $(seq 300); do docker info >/dev/null 2>&1 && exit; sleep 0.1; done; tail -20 /var/log/docker.log; exit 1")
	if strings.Contains(out, "mount:") {
		t.Errorf("the service of Docker mounts cgroups: %s", out)
	}
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
// snapshot contains them. Machines that start from the snapshot must get their
// own copies.
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
	// A snapshot of the fork replaces the data of the first snapshot.
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

// TestDockerDisk checks that a machine's disk usage includes its containers'
// files, even those that are deleted but still open.
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

// TestDockerRights checks that machines get the rights that dockerd needs only
// if the server allows it and they have a user namespace.
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
		t.Errorf("not allowed: %s", got)
	}
	// A machine without Docker has these rights too, so that Docker works once it is
	// installed.
	host := createNamed(t, r, machine.Spec{ID: "m-5", Image: "host"})
	if got := do(t, host, "grep CapBnd /proc/self/status | cut -f2; stat -c '%u %a' /var/lib /var/lib/docker; mkdir /var/lib/docker/x"); got != "000001ffffffffff\n0 755\n0 710" {
		t.Errorf("without dockerd: %s", got)
	}
	r.mapped = false
	if got := rights(r, dockerImage(t)); !strings.HasPrefix(got, "00000000a00425fb\nmount: ") {
		t.Errorf("without a user namespace: %s", got)
	}
}
