package container

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/userns"
)

// TestRootIsNobody starts two runc machines. Root in each must be a different
// user of the host who owns nothing, but their files must have the owners that
// the machines see.
func TestRootIsNobody(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	if !r.mapped {
		t.Fatal(canMap(r.conf.RuntimePath, r.conf.Dir))
	}
	ids := map[string]bool{}
	for _, id := range []string{"m-1", "m-2"} {
		made, err := r.Create(t.Context(), machine.Spec{ID: id, Image: "host", Network: anywhere})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := made.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		m := made.(*Machine)
		data, err := os.ReadFile(filepath.Join(filepath.Dir(m.rootOfInit()), "status"))
		if err != nil {
			t.Fatal(err)
		}
		var uid int
		for line := range strings.Lines(string(data)) {
			if n, _ := fmt.Sscanf(line, "Uid:\t%d", &uid); n == 1 {
				break
			}
		}
		if uid < userns.FirstID || uid%userns.IDs != 0 || ids[fmt.Sprint(uid)] {
			t.Errorf("root of %s is the user %d of the host", id, uid)
		}
		ids[fmt.Sprint(uid)] = true
		for _, c := range []struct{ command, want string }{
			{"id -u", "0\n"},
			{"touch /root/r; setpriv --reuid=1000 --regid=1000 --clear-groups touch /home/ubuntu/u; stat -c %u:%g /root/r /home/ubuntu/u", "0:0\n1000:1000\n"},
			{"stat -c %u /usr/bin/env /etc/passwd /proc/1", "0\n0\n0\n"},
			{"chown 65535 /root/r; stat -c %u /root/r", "65535\n"},
			{"rm -f /etc/group; ls /etc/group 2>&1 | grep -c 'No such'", "1\n"}, // the image's file is deleted by a whiteout
			{"cp /usr/bin/env /root/e; setcap cap_net_raw+ep /root/e 2>&1; getcap /root/e", "/root/e cap_net_raw=ep\n"},
			{"python3 -c 'import socket; socket.socket().bind((\"127.0.0.1\", 80)); socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print(1)'", "1\n"},
			{"setpriv --reuid=1000 --regid=1000 --clear-groups sudo -n id -u", "0\n"},
		} {
			if got := ask(t, m, "sh", "-c", c.command); got.Output != c.want {
				t.Errorf("%s: %s: %q, want %q", id, c.command, got.Output, c.want)
			}
		}
		for name, want := range map[string]uint32{"root/r": 65535, "home/ubuntu/u": 1000} {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(m.path("upper"), name), &st); err != nil || st.Uid != want {
				t.Errorf("%s: %s is one of %d on the disk, %v; want %d", id, name, st.Uid, err, want)
			}
		}
	}
	claims, err := os.ReadDir(filepath.Join(r.conf.Dir, "ids"))
	if err != nil || len(claims) != 2 {
		t.Errorf("two machines have %d ranges of ids, %v", len(claims), err)
	}
}

// TestMountMapped checks that only the overlay stays mounted, although its layers are
// mounted temporarily, and that no mount is left if mounting the overlay fails.
func TestMountMapped(t *testing.T) {
	runc := engines(t)["runc"]
	ids, err := userns.Try(runc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ids.Close() })
	mounted := func(root string) (types []string) {
		t.Helper()
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			before, after, _ := strings.Cut(line, " - ")
			if f := strings.Fields(before); len(f) > 4 && strings.HasPrefix(f[4]+"/", root+"/") {
				types = append(types, strings.Fields(after)[0])
			}
		}
		return types
	}
	err = inOverlay(t.TempDir(), func(root, lower, upper, work string) error {
		if err := layer.MountMapped(root, []string{lower, upper + "-missing"}, upper, work, ids); err == nil {
			t.Error("a missing layer was mounted")
		}
		if got := mounted(root); len(got) > 0 {
			t.Errorf("after an error %v are mounted", got)
		}
		return layer.MountMapped(root, []string{lower}, upper, work, ids)
	}, func(root string) error {
		if got := mounted(root); len(got) != 1 || got[0] != "overlay" {
			t.Errorf("%v are mounted, want the overlay alone", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestQuotasOfUsers has a machine use up the kernel's per-user quotas of
// inotify instances and pipe pages. The quotas of another machine and of root
// on the host must be unaffected.
func TestQuotasOfUsers(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	const script = `
import ctypes, fcntl, os, sys, time
libc = ctypes.CDLL(None)
def instances():
    fds = []
    while (fd := libc.inotify_init()) >= 0: fds.append(fd)
    return len(fds)
def pipe():
    return fcntl.fcntl(os.pipe()[0], 1032) # F_GETPIPE_SZ
small = False
if sys.argv[1] == "all":
    for n in range(9000): small = small or pipe() < 65536
    print(instances() > 0, small)
    sys.stdout.close(); os.close(1)
    while True: time.sleep(60)
print(libc.inotify_init() >= 0, pipe())
`
	machines := map[string]machine.Machine{}
	for _, id := range []string{"m-1", "m-2"} {
		m, err := r.Create(t.Context(), machine.Spec{ID: id, Image: "host"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		})
		machines[id] = m
	}
	const user = "setpriv --reuid=1000 --regid=1000 --clear-groups "
	if got := ask(t, machines["m-1"], "sh", "-c", user+`python3 -c "$0" all > /tmp/said 2>&1 & timeout 60 sh -c "until grep -s . /tmp/said; do sleep 0.05; done"`, script); got.Output != "True True\n" {
		t.Errorf("m-1: took inotify instances, made a small pipe: %q", got.Output)
	}
	if got := ask(t, machines["m-1"], "python3", "-c", script, "one"); !strings.HasPrefix(got.Output, "False ") {
		t.Errorf("m-1: the quota is not used up: %q", got.Output)
	}
	for _, who := range []string{"", user} {
		if got := ask(t, machines["m-2"], "sh", "-c", who+`python3 -c "$0" one`, script); got.Output != "True 65536\n" {
			t.Errorf("m-2: %s has an inotify instance and a whole pipe: %q", who, got.Output)
		}
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatalf("root on the host has no inotify instance: %v", err)
	}
	if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
}

// TestDataInAHome puts the server's data and runc into a folder that another
// user has closed to everybody else.
func TestDataInAHome(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := errors.Join(os.Mkdir(home, 0o700), os.Chown(home, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(engines(t)["runc"])
	if err != nil {
		t.Fatal(err)
	}
	runc := filepath.Join(home, "runc")
	if err := os.WriteFile(runc, program, 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t, filepath.Join(home, "data"), runc)
	if !r.mapped {
		t.Error(canMap(r.conf.RuntimePath, r.conf.Dir))
	}
	if got := ask(t, create(t, r, machine.Spec{Image: "host", Network: anywhere}), "id", "-u"); got.Output != "0\n" {
		t.Errorf("root in the machine is %q", got.Output)
	}
}

// TestSavedByOthers starts machines with a user namespace from the saved disk
// of a machine without one, and vice versa.
func TestSavedByOthers(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	saved := ""
	for i, mapped := range []bool{false, true, false, true} {
		r.mapped = mapped
		made, err := r.Create(t.Context(), machine.Spec{ID: fmt.Sprint("m-", i), Image: "host", Layer: saved})
		if err != nil {
			t.Fatal(err)
		}
		m := made.(*Machine)
		if saved != "" {
			got := ask(t, m, "sh", "-c", "cd /srv && stat -c '%n %u %a' root user suid && cat big && rm big && setpriv --reuid=1000 --regid=1000 --clear-groups sh -c 'echo more >> user; ./suid -u' && rm -r dir && mkdir dir && rm suid && ls")
			if want := "root 0 644\nuser 1000 644\nsuid 0 4755\nbig\n0\ndir\nroot\nuser\n"; got.Output != want {
				t.Errorf("machine %d, mapped %v: %q, want %q", i, mapped, got.Output, want)
			}
		}
		ask(t, m, "sh", "-c", "mkdir -p /srv/dir && cd /srv && touch root dir/file user && chown 1000:1000 user && cp /usr/bin/id suid && chmod 4755 suid")
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Only a machine without a user namespace can create a file with such
		// an owner.
		big := filepath.Join(m.path("upper"), "srv/big")
		if err := errors.Join(os.RemoveAll(big), os.WriteFile(big, []byte("big\n"), 0o644), os.Chown(big, 1<<17, 1<<17)); err != nil {
			t.Fatal(err)
		}
		saved = layer.NewID(layer.Snapshot)
		if err := m.Freeze(t.Context(), saved); err != nil {
			t.Fatal(err)
		}
		if err := m.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkClean(t, r)
}
