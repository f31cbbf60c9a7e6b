package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/control/machine/machinetest/standin"
	"aloft/internal/need"
)

// ask runs a command in the machine as root.
func ask(t testing.TB, m machine.Machine, argv ...string) standin.Reply {
	t.Helper()
	r, err := standin.Ask(t.Context(), machinetest.Connect(t, m), standin.Request{Argv: argv})
	if err != nil {
		t.Fatalf("%s: %v", argv, err)
	}
	return r
}

func create(t testing.TB, r *Runtime, spec machine.Spec) machine.Machine {
	t.Helper()
	spec.ID = "m-1"
	m, err := r.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return m
}

func TestInside(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "host-secret")
	if err := os.WriteFile(secret, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			m := create(t, r, machine.Spec{Image: "host", Env: map[string]string{"GREETING": "a=b c"}})
			for what, c := range map[string]struct{ command, want string }{
				"host name":             {"hostname", "cursor\n"},
				"pid 1":                 {"tr '\\0' ' ' < /proc/1/cmdline", "/pod-daemon "},
				"environment":           {"tr '\\0' '\\n' < /proc/1/environ | grep -E '^(GREETING|ALOFT_POD_SOCKET)=' | sort", "ALOFT_POD_SOCKET=/run/aloft/pod.sock\nGREETING=a=b c\n"},
				"only loopback":         {"ls /sys/class/net 2>/dev/null || cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '", "lo\n"},
				"loopback is up":        {"bash -c 'exec 3<>/dev/tcp/127.0.0.1/1' 2>&1 | grep -q refused && echo yes", "yes\n"},
				"host's files":          {"ls " + secret + " " + r.conf.Dir + " 2>&1 | grep -c 'No such file'", "2\n"},
				"host's homes":          {"ls /home; ls -A /root", "ubuntu\n.bashrc\n.profile\n"},
				"no docker socket":      {"find / -xdev -type s 2>/dev/null; ls /var/run/docker.sock 2>/dev/null; true", ""},
				"usr is its own":        {"touch /usr/x-of-a-machine && rm /usr/bin/factor && ls /usr/x-of-a-machine /usr/bin/factor 2>/dev/null; ls -A /workspace | wc -l", "/usr/x-of-a-machine\n0\n"},
				"no password opens":     {"cut -d: -f2 /etc/shadow | sort -u | tr '\\n' ' '", "! * "},
				"workspace":             {"stat -c '%u:%g %a' /workspace /home/ubuntu /tmp /opt/cursor/artifacts", "1000:1000 755\n1000:1000 755\n0:0 1777\n1000:1000 755\n"},
				"programs":              {"test -x /pod-daemon && test ! -e /aloft && echo yes", "yes\n"},
				"devices":               {"ls /dev | grep -E '^(sd|vd|nvme|kvm|mem|loop|fuse)' ; for n in 'b 254 0' 'c 10 200' 'c 1 1'; do mknod /tmp/device $n 2>&1 | grep -c 'not permitted'; done; ls /tmp/device /dev/net 2>/dev/null", "1\n1\n1\n"},
				"machine-id":            {"grep -c -E '^[0-9a-f]{32}$' /etc/machine-id", "1\n"},
				"sudo":                  {"setpriv --reuid=1000 --regid=1000 --clear-groups sudo -n id -u", "0\n"},
				"user":                  {"setpriv --reuid=1000 --regid=1000 --clear-groups id -un", "ubuntu\n"},
				"no mount":              {"mount -t tmpfs none /mnt 2>&1 | grep -c -E 'denied|not permitted'", "1\n"},
				"CA bundle":             {"grep -c 'BEGIN CERTIFICATE' /etc/ssl/certs/ca-certificates.crt | grep -c -v '^0$'", "1\n"},
				"git":                   {"cd /tmp && git init -q x && cd x && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --oneline | wc -l", "1\n"},
				"proc is masked":        {"head -c1 /proc/kcore 2>/dev/null | wc -c; echo x 2>/dev/null > /proc/sysrq-trigger || echo refused", "0\nrefused\n"},
				"cgroups are read-only": {"mkdir /sys/fs/cgroup/x /sys/fs/cgroup/*/x 2>&1 | grep -v -c -E 'Read-only|denied|No such'", "0\n"},
			} {
				got := ask(t, m, "sh", "-c", c.command)
				if name == "runsc" && (what == "no mount" || what == "devices" || what == "cgroups are read-only" || what == "proc is masked") {
					continue // gVisor has its own kernel, so root's actions there do not matter
				}
				if got.Output != c.want {
					t.Errorf("%s: %q is %q, want %q", what, c.command, got.Output, c.want)
				}
			}
			mounts := ask(t, m, "cat", "/proc/self/mountinfo").Output
			for line := range strings.Lines(mounts) {
				f := strings.Fields(line)
				at, from := f[4], f[3]
				if strings.Contains(from, "host-secret") || strings.HasPrefix(at, "/usr/") && !strings.Contains(f[5], "ro") {
					t.Errorf("mount %s", line)
				}
			}
			if _, err := os.Lstat("/usr/x-of-a-machine"); err == nil {
				t.Error("the machine writes to the host's /usr")
			}
			if _, err := os.Lstat("/usr/bin/factor"); err != nil {
				t.Errorf("the machine has removed a program of the host: %v", err)
			}
		})
	}
}

func TestStrongClassIsGVisor(t *testing.T) {
	need.File(t, "runsc", builtRunsc) // built by hack/build-runsc.sh
	all := engines(t)
	conf := config(t, t.TempDir(), all["runc"])
	conf.StrongRuntimePath = all["runsc"]
	r, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	m := create(t, r, machine.Spec{Image: "host", Class: "strong"})
	if got := ask(t, m, "dmesg"); !strings.Contains(got.Output, "gVisor") {
		t.Errorf("dmesg says %+v", got)
	}
}

func TestLimits(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host", Limits: machine.Limits{MemoryBytes: 64 << 20, CPUs: 0.5, PIDs: 30}})
	if got := ask(t, m, "sh", "-c", "head -c 200m /dev/zero | tail | wc -c"); strings.TrimSpace(got.Output) == "209715200" {
		t.Errorf("200 MiB fit into 64: %+v", got)
	}
	if got := ask(t, m, "sh", "-c", "for i in $(seq 60); do sleep 600 >/dev/null 2>&1 & done 2>&1"); !strings.Contains(got.Output, "fork") {
		t.Errorf("60 processes fit into 30: %+v", got)
	}
}

// TestHostileSocket has root in a machine try to make the server connect to a
// socket of the host.
func TestHostileSocket(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(path string) error{
		"link to a socket": func(p string) error { return os.Symlink("/run/host.sock", p) },
		"link to /proc":    func(p string) error { return os.Symlink("/proc/1/root/run/host.sock", p) },
		"relative link":    func(p string) error { return os.Symlink("../host.sock", p) },
		"directory":        func(p string) error { return os.Mkdir(p, 0o755) },
		"file":             func(p string) error { return os.WriteFile(p, nil, 0o644) },
		"pipe":             func(p string) error { return unix.Mkfifo(p, 0o644) },
	} {
		path := filepath.Join(run, socketName)
		if err := plant(path); err != nil {
			t.Fatal(err)
		}
		if conn, err := connect(t.Context(), run); err == nil {
			_ = conn.Close()
			t.Errorf("%s: connected", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogIsCut(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host"})
	log := m.(*Machine).path("log")
	ask(t, m, "sh", "-c", "head -c 3m /dev/zero > /proc/1/fd/1")
	if info, err := os.Stat(log); err != nil || info.Size() < 3<<20 {
		t.Fatalf("the log holds %v, %v", info, err)
	}
	if err := r.cutLogs(); err != nil {
		t.Fatal(err)
	}
	ask(t, m, "sh", "-c", "echo again > /proc/1/fd/1")
	if data, err := os.ReadFile(log); err != nil || string(data) != "again\n" {
		t.Errorf("the log holds %d bytes, %v", len(data), err)
	}
}
