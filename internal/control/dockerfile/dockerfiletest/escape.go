package dockerfiletest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// hostID is the host's id for root in the cells of the suite's own jobs.
const hostID = 0x70000000

// raw makes the engine build a Dockerfile that did not pass the gate.
func (b *bench) raw(t *testing.T, text string, links map[string]string) (*output, error) {
	t.Helper()
	top := t.TempDir()
	job := dockerfile.Job{
		Repository: t.Name(), FirstID: hostID, Network: dockerfile.None, Context: filepath.Join(top, "context"), Work: filepath.Join(top, "work"),
		Dockerfile: filepath.Join(top, "work", "Dockerfile"), Output: filepath.Join(top, "work", "image"),
	}
	busybox, err := os.ReadFile(filepath.Join(b.repo, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{job.Context, job.Work} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, data := range map[string][]byte{filepath.Join(job.Context, "busybox"): busybox, job.Dockerfile: []byte(base + text)} {
		if err := os.WriteFile(file, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(job.Context, name)); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		return os.Lchown(path, hostID, hostID)
	})
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	return out, b.Engine.Build(t.Context(), job, out.add)
}

// escape tries known escapes from engines. The gate would refuse all of them;
// here the cell alone must stop them. The builds may succeed: only the effect
// on the host counts.
func (b *bench) escape(t *testing.T) {
	host := t.TempDir()
	const secret = "of-the-host-alone"
	if err := os.WriteFile(filepath.Join(host, "secret"), []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(host, 0o777); err != nil { // the cell must isolate builds even without file permissions
		t.Fatal(err)
	}
	up := strings.Repeat("../", 12) + host
	act := " busybox cat /m/secret; echo x >/m/planted; true\n"
	for name, text := range map[string]string{
		"id of a cache":              "RUN --mount=type=cache,id=" + up + ",target=/m" + act,
		"link of a stage":            "FROM base AS a\nRUN busybox ln -s " + host + " /l\nFROM base\nRUN --mount=type=bind,from=a,source=/l,target=/m,rw" + act,
		"link of the context":        "RUN --mount=type=bind,source=link,target=/m,rw" + act,
		"file behind a link":         "COPY link/secret /m/secret\nRUN" + act,
		"link in a cache":            "RUN --mount=type=cache,id=c,target=/c busybox ln -s " + host + " /c/l\nRUN --mount=type=cache,id=c/l,target=/m" + act,
		"source in a cache":          "RUN --mount=type=cache,id=d,target=/c busybox ln -s " + host + " /c/l\nRUN --mount=type=cache,id=d,source=l,target=/m" + act,
		"layout of the host":         "FROM oci:" + host + "\n",
		"folder of the host":         "FROM dir:" + host + "\n",
		"namespaces of the server":   "RUN busybox ls -l /proc/1/root" + host + " && busybox cat /proc/1/root" + host + "/secret\n",
		"devices of the host":        "RUN busybox mknod /disk b 254 0 && busybox head -c 512 /disk && echo " + secret + "\n",
		"a mount of the host's root": "RUN busybox mount -t ext4 /dev/vda /mnt && echo " + secret + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			out, err := b.raw(t, text, map[string]string{"link": host})
			for _, line := range out.lines {
				// Engines print the steps, so skip lines that contain the
				// command itself.
				if strings.Contains(line, secret) && !strings.Contains(line, "RUN") && !strings.Contains(line, "echo") {
					t.Errorf("it has read a file of the host: %v\n%s", err, out)
				}
			}
			if _, err := os.Stat(filepath.Join(host, "planted")); err == nil {
				t.Errorf("it has written to the host:\n%s", out)
				_ = os.Remove(filepath.Join(host, "planted"))
			}
		})
	}
}

// nobody is the test that root in a build is a host user who owns nothing.
func (b *bench) nobody(t *testing.T) {
	_, out, err := b.build(t, dockerfile.Spec{Contents: base + "RUN busybox cat /proc/self/uid_map /proc/self/gid_map && echo \"as $(busybox id -u)\"\n", NoCache: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := 0
	for _, line := range out.lines {
		f := strings.Fields(line)
		if n := len(f); n >= 3 && f[n-3] == "0" && f[n-1] == "65536" {
			seen++
			if len(f[n-2]) < 10 { // ids from 1,879,048,192 up have ten digits
				t.Errorf("root in the build is %s on the host", f[n-2])
			}
		}
	}
	if seen != 2 || !strings.Contains(out.String(), "as 0") {
		t.Errorf("it has no user namespace:\n%s", out)
	}
}

// namespaces checks that a step cannot create user namespaces. In one it would
// have all capabilities, and with them the packet filter, and network namespaces
// without end, whose memory counts towards no limit.
func (b *bench) namespaces(t *testing.T) {
	for _, flags := range []string{"-U", "-U -r -n", "-n"} {
		text := base + "RUN busybox unshare " + flags + " busybox true && echo it is do''ne || echo it is ref''used\n"
		_, out, err := b.build(t, dockerfile.Spec{Contents: text, NoCache: true})
		if err != nil || strings.Contains(out.String(), "it is done") || !strings.Contains(out.String(), "it is refused") {
			t.Errorf("unshare %s: %v\n%s", flags, err, out)
		}
	}
}

// socketMemory checks that the memory of a build's sockets is limited on cgroup
// v1, which counts it towards no other limit.
func (b *bench) socketMemory(t *testing.T) {
	const root, file = "/sys/fs/cgroup/memory", "memory.kmem.tcp.limit_in_bytes"
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		return // version 2 counts sockets towards memory.max
	}
	mark := fmt.Sprintf("60.%d", os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := ""
	spec := dockerfile.Spec{Root: b.repo, Context: ".", Contents: base + "RUN echo it is he''re; busybox sleep " + mark + "\n", NoCache: true}
	_, _, err := b.Build(ctx, spec, func(line string) {
		if strings.Contains(line, "it is here") {
			seen = limitOf(t, mark, root, file)
			cancel()
		}
	})
	if n, parseErr := strconv.ParseInt(seen, 10, 64); parseErr != nil || n > 1<<40 {
		t.Errorf("the sockets of a build may have %q bytes: %v", seen, err)
	}
}

// limitOf returns a limit of the cgroup of the process that sleeps for mark
// seconds, or of its shell.
func limitOf(t *testing.T, mark, root, file string) string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range lines {
		line, _ := os.ReadFile(path) // the process may have ended
		if !strings.Contains(strings.ReplaceAll(string(line), "\x00", " "), "sleep "+mark) {
			continue
		}
		cgroups, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup"))
		for l := range strings.Lines(string(cgroups)) {
			if _, at, ok := strings.Cut(strings.TrimSpace(l), ":memory:"); ok {
				limit, err := os.ReadFile(filepath.Join(root, at, file))
				if err != nil {
					t.Error(err)
				}
				return strings.TrimSpace(string(limit))
			}
		}
	}
	return ""
}

func (b *bench) limits(t *testing.T) {
	defer func() { b.Limits = dockerfile.Limits{} }()
	b.Limits = dockerfile.Limits{MemoryBytes: 256 << 20}
	if _, out, err := b.build(t, dockerfile.Spec{Contents: base + "RUN busybox head -c 700000000 /dev/zero | (busybox tail -c 600000000 >/dev/null && echo it is do''ne)\n", NoCache: true}); err == nil || strings.Contains(out.String(), "it is done") {
		t.Errorf("a step has more memory than the build may: %v\n%s", err, out)
	}
	b.Limits = dockerfile.Limits{PIDs: 100}
	if _, out, err := b.build(t, dockerfile.Spec{Contents: base + "RUN i=0; while [ $i -lt 200 ]; do busybox sleep 5 & i=$((i+1)); done; echo it is do''ne\n", NoCache: true}); err == nil || strings.Contains(out.String(), "it is done") {
		t.Errorf("a step has more processes than the build may: %v\n%s", err, out)
	}
	b.Limits = dockerfile.Limits{Time: 3 * time.Second}
	if _, out, err := b.build(t, dockerfile.Spec{Contents: base + "RUN busybox sleep 600\n", NoCache: true}); fault.Of(err).Code != "build_time_limit" {
		t.Errorf("a build that takes too long ends with %v\n%s", err, out)
	}
}

// apart checks that builds of two repositories share no caches, and that
// neither can name the other's images by id.
func (b *bench) apart(t *testing.T) {
	for i, c := range []struct {
		repository string
		listed     bool
	}{{"first", false}, {"second", false}, {"first", true}} {
		text := fmt.Sprintf("RUN --mount=type=cache,id=shared,target=/c busybox ls /c; echo x >/c/of-the-first; : %d\n", i)
		_, out, err := b.build(t, dockerfile.Spec{Repository: c.repository, Contents: base + text})
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		listed := slices.ContainsFunc(out.lines, func(line string) bool {
			return strings.HasSuffix(line, "of-the-first") && !strings.Contains(line, "RUN")
		})
		if listed != c.listed {
			t.Errorf("build %d, of the %s repository, has the cache of the first: %v\n%s", i, c.repository, listed, out)
		}
	}
}
