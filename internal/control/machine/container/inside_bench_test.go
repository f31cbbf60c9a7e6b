package container

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/policy"
)

// Commands of BenchmarkInside. Each restores the system's state, and prints its
// duration in nanoseconds without the preparation.
const (
	timed     = `begin=$(date +%%s%%N); %s >/dev/null; end=$(date +%%s%%N); %s >/dev/null 2>&1; echo $((end-begin))`
	runDocker = "docker run --rm box true"
	// The package is in the cache, so the speed of the mirror does not matter.
	installPackage = "apt-get install -y --no-install-recommends hello"
	removePackage  = "apt-get purge -y hello"
)

// BenchmarkInside compares Docker and apt in a machine with the same programs
// in a plain chroot on the host. Both use the same image, and the measurements
// alternate.
func BenchmarkInside(b *testing.B) {
	image := dockerImage(b)
	m := create(b, dockerRuntime(b), machine.Spec{Image: image, Network: opened(policy.AllowAll)})
	inside := func(script string) string { return do(b, m, script) }
	onHost, apart := plainChroot(b, strings.TrimPrefix(image, "rootfs:"))
	const again = "apt-get install -y -d --no-install-recommends hello"
	// Docker's service would otherwise mount more cgroups on the host.
	const build = `for i in $(seq 300); do docker info >/dev/null 2>&1 && break; sleep 0.1; done
mkdir -p /tmp/box; cd /tmp/box; cp /bin/busybox .; printf 'FROM scratch\nCOPY busybox /bin/\nRUN ["/bin/busybox", "--install", "/bin"]\n' >Dockerfile
docker build -q -t box .`
	inside("service docker start; " + build)
	apart("setsid dockerd >/tmp/dockerd.log 2>&1 </dev/null & " + build)
	for _, side := range []func(string) string{inside, onHost} {
		side("apt-get update; " + again)
	}
	for _, work := range []struct {
		name, script string
		outside      func(string) string
	}{
		{"docker", fmt.Sprintf(timed, runDocker, "true"), apart},
		{"apt", fmt.Sprintf(timed, installPackage, removePackage+"; "+again), onHost},
	} {
		b.Run(work.name, func(b *testing.B) {
			var ours, bare []float64
			for b.Loop() {
				ours, bare = append(ours, nanoseconds(b, inside(work.script))), append(bare, nanoseconds(b, work.outside(work.script)))
			}
			slices.Sort(ours)
			slices.Sort(bare)
			b.ReportMetric(ours[len(ours)/2], "ns/op")
			b.ReportMetric(bare[len(bare)/2], "ns/yardstick")
		})
	}
}

func nanoseconds(b *testing.B, text string) (ns float64) {
	b.Helper()
	lines := strings.Fields(text)
	if _, err := fmt.Sscan(lines[len(lines)-1], &ns); err != nil {
		b.Fatalf("%q: %v", text, err)
	}
	return ns
}

// plainChroot returns two functions that run scripts as root in a chroot over
// an image: onHost with the host's network, and apart with a new, empty
// network, where Docker creates its bridge. Their processes end with the
// benchmark.
func plainChroot(b *testing.B, image string) (onHost, apart func(script string) string) {
	b.Helper()
	dir := b.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	// The first process keeps the namespaces alive. Each script runs in them.
	const keep = `set -e; ip link set lo up; cd "$0"; mkdir upper work root data
mount -t overlay -o lowerdir="$1",upperdir=upper,workdir=work overlay root
mount -t proc proc root/proc; mount --rbind /sys root/sys; mount --rbind /dev root/dev; mount -t tmpfs tmpfs root/run
mkdir -p root/var/lib/docker; mount --bind data root/var/lib/docker; cp /etc/resolv.conf root/etc/resolv.conf
echo ready; exec sleep infinity`
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", keep, dir, image)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		b.Fatal(err)
	}
	b.Cleanup(func() { cancel(); _ = cmd.Wait() })
	if _, err := fmt.Fscan(out, new(string)); err != nil {
		b.Fatalf("the chroot was not made: %v", err)
	}
	first, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", cmd.Process.Pid, cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	in := func(namespaces ...string) func(script string) string {
		return func(script string) string {
			b.Helper()
			args := append([]string{"--target", strings.TrimSpace(string(first)), "--mount", "--pid"}, namespaces...)
			args = append(args, "chroot", filepath.Join(dir, "root"), "bash", "-c", "set -e; exec 2>&1; "+script)
			got, err := exec.CommandContext(b.Context(), "nsenter", args...).CombinedOutput()
			if err != nil {
				b.Fatalf("%s: %v: %s", script, err, got)
			}
			return strings.TrimSpace(string(got))
		}
	}
	return in(), in("--net")
}
