package confine

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/need"
)

// TestMain makes the test binary its own hostile program: if its argument is
// the name of an attack, it makes that attack and exits with 0 if the attack
// succeeds.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "attack" {
		if err := attacks[os.Args[2]](os.Args[3:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var attacks = map[string]func(args []string) error{
	"read": func(args []string) error {
		_, err := os.ReadFile(args[0])
		return err
	},
	"list": func(args []string) error {
		_, err := os.ReadDir(args[0])
		return err
	},
	"chmod": func(args []string) error {
		info, err := os.Stat(args[0])
		if err != nil {
			return err
		}
		return os.Chmod(args[0], info.Mode())
	},
	"write": func(args []string) error { return os.WriteFile(args[0], []byte("attacked"), 0o600) },
	"dial": func(args []string) error {
		conn, err := net.Dial(args[0], args[1])
		if err == nil {
			err = conn.Close()
		}
		return err
	},
	"socket": func(args []string) error {
		family, _ := strconv.Atoi(args[0])
		kind, _ := strconv.Atoi(args[1])
		fd, err := unix.Socket(family, kind, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	},
	"trace": func(args []string) error {
		pid, _ := strconv.Atoi(args[0])
		runtime.LockOSThread()
		return unix.PtraceAttach(pid)
	},
	"signal": func(args []string) error {
		pid, _ := strconv.Atoi(args[0])
		return unix.Kill(pid, 0)
	},
	"mount": func(args []string) error { return unix.Mount("tmpfs", args[0], "tmpfs", 0, "size=4k") },
	"namespace": func([]string) error {
		cmd := exec.Command("/usr/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"root": func([]string) error { return unix.Setuid(0) },
	"memory": func(args []string) error {
		size, _ := strconv.Atoi(args[0])
		held := make([]byte, size)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		runtime.KeepAlive(held)
		return nil
	},
	"fork": func(args []string) error {
		count, _ := strconv.Atoi(args[0])
		for range count {
			cmd := exec.Command("/usr/bin/sleep", "60")
			if err := cmd.Start(); err != nil {
				return err
			}
			defer func() { _ = cmd.Process.Kill() }()
		}
		return nil
	},
	"file": func(args []string) error { return os.WriteFile(args[0], make([]byte, 1<<20), 0o600) },
	// The child process leaves the session and the process group.
	"stay": func(args []string) error {
		cmd := exec.Command("/usr/bin/sleep", "60")
		cmd.Args[0] = args[0]
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	},
}

// attack runs an attack in a jail, or as root if h is nil.
func attack(t *testing.T, h *Host, j Jail, args ...string) (succeeded bool, said string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, append([]string{"attack"}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Dir = &out, &out, "/"
	cmd.WaitDelay = time.Second
	if h == nil {
		err = cmd.Start()
	} else {
		j.User, j.Execute = FirstUser+7, []string{self}
		var release func()
		if release, err = h.Start(cmd, j); err == nil {
			defer release()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Wait() == nil, strings.TrimSpace(out.String())
}

func host(t *testing.T) *Host {
	t.Helper()
	need.Root(t)
	h, err := Open(t.TempDir())
	if err != nil {
		need.Missing(t, "confinement", err)
	}
	return h
}

// TestAttacks makes each attack inside a jail, where it must fail, and outside
// of the jail, where it succeeds.
func TestAttacks(t *testing.T) {
	h := host(t)
	h.limits.MemoryBytes, h.limits.PIDs = 64<<20, 40
	dir := t.TempDir()
	own, other := filepath.Join(dir, "own"), filepath.Join(dir, "other")
	for _, d := range []string{own, other} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
		// File modes allow everything, so only the mount namespace protects the
		// folder.
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "file"), []byte("secret"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret.key")
	if err := os.WriteFile(secret, []byte("key"), 0o644); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	local, err := net.Listen("unix", filepath.Join(own, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	if err := os.Chmod(filepath.Join(own, "s"), 0o777); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command("/usr/bin/sleep", "600")
	victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: FirstUser + 7, Gid: FirstUser + 7}}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = victim.Process.Kill(), victim.Wait() }()
	pid := strconv.Itoa(victim.Process.Pid)
	point := filepath.Join(own, "point")
	if err := os.Mkdir(point, 0o777); err != nil {
		t.Fatal(err)
	}
	read, write := Jail{Read: []string{own}}, Jail{Write: []string{own}}
	for name, tt := range map[string]struct {
		in     Jail
		attack []string
	}{
		"Key":            {write, []string{"read", secret}},
		"Shadow":         {write, []string{"read", "/etc/shadow"}},
		"OtherFolder":    {write, []string{"read", filepath.Join(other, "file")}},
		"WriteOther":     {write, []string{"write", filepath.Join(other, "new")}},
		"WriteReadOnly":  {read, []string{"write", filepath.Join(own, "new")}},
		"Device":         {Jail{Capabilities: []uintptr{unix.CAP_FOWNER}}, []string{"chmod", "/dev/null"}},
		"WriteRoot":      {write, []string{"write", filepath.Join(dir, "new")}},
		"Proc":           {write, []string{"list", "/proc/" + pid}},
		"Sys":            {write, []string{"list", "/sys/fs/cgroup"}},
		"TCP":            {read, []string{"dial", "tcp", tcp.Addr().String()}},
		"Unix":           {Jail{Write: []string{own}, Network: true}, []string{"dial", "unix", filepath.Join(own, "s")}},
		"Packet":         {Jail{Network: true}, []string{"socket", strconv.Itoa(unix.AF_PACKET), strconv.Itoa(unix.SOCK_RAW)}},
		"Trace":          {write, []string{"trace", pid}},
		"Signal":         {write, []string{"signal", pid}},
		"Mount":          {write, []string{"mount", point}},
		"UserNamespace":  {write, []string{"namespace"}},
		"BecomeRoot":     {write, []string{"root"}},
		"FillMemory":     {write, []string{"memory", strconv.Itoa(256 << 20)}},
		"AllocateMemory": {Jail{DataBytes: 128 << 20}, []string{"memory", strconv.Itoa(1 << 30)}},
		"ForkBomb":       {write, []string{"fork", "60"}},
		"LargeFile":      {Jail{Write: []string{own}, FileBytes: 64 << 10}, []string{"file", filepath.Join(own, "large")}},
	} {
		t.Run(name, func(t *testing.T) {
			if succeeded, _ := attack(t, h, tt.in, tt.attack...); succeeded {
				t.Errorf("%v succeeded in a jail", tt.attack)
			}
			succeeded, said := attack(t, nil, Jail{}, tt.attack...)
			if name == "Mount" && succeeded {
				if err := unix.Unmount(point, 0); err != nil {
					t.Error(err)
				}
			}
			if !succeeded {
				t.Errorf("%v fails outside of a jail too, so it shows nothing: %s", tt.attack, said)
			}
		})
	}
}

// TestAllowed checks that a program in a jail can use everything that the jail
// lists.
func TestAllowed(t *testing.T) {
	h := host(t)
	dir := t.TempDir()
	if err := os.Chown(dir, FirstUser+7, FirstUser+7); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	for _, tt := range []struct {
		in     Jail
		attack []string
	}{
		{Jail{Write: []string{dir}}, []string{"write", filepath.Join(dir, "new")}},
		{Jail{Read: []string{dir}}, []string{"read", filepath.Join(dir, "new")}},
		{Jail{Network: true}, []string{"dial", "tcp", tcp.Addr().String()}},
		{Jail{}, []string{"fork", "5"}},
		{Jail{}, []string{"read", "/etc/hosts"}},
		{Jail{}, []string{"write", "/dev/null"}},
	} {
		if succeeded, said := attack(t, h, tt.in, tt.attack...); !succeeded {
			t.Errorf("%v fails: %s", tt.attack, said)
		}
	}
}

// TestNothingStays checks that processes that leave the command's session end
// with the command, and that the command's cgroups are removed.
func TestNothingStays(t *testing.T) {
	h := host(t)
	mark := "stays-" + filepath.Base(t.TempDir()) + strconv.Itoa(os.Getpid())
	running := func() (pids []int) {
		lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range lines {
			if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), mark) {
				pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
				pids = append(pids, pid)
			}
		}
		return pids
	}
	if succeeded, said := attack(t, nil, Jail{}, "stay", mark); !succeeded || len(running()) != 1 {
		t.Fatalf("nothing stays outside of a jail: %s", said)
	}
	for _, pid := range running() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	if succeeded, said := attack(t, h, Jail{}, "stay", mark+"-confined"); !succeeded {
		t.Fatal(said)
	}
	deadline := time.Now().Add(30 * time.Second)
	left := func() (dirs []string) {
		for _, tree := range h.trees {
			found, err := filepath.Glob(filepath.Join(tree.Dir, h.prefix+"*"))
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, found...)
		}
		return dirs
	}
	for len(running())+len(left()) > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if len(running())+len(left()) > 0 {
		t.Errorf("processes %v and cgroups %v are left", running(), left())
	}
}

// TestSweep checks that sweep kills the programs that a killed process has
// started on the same folder, but not those of another running process.
func TestSweep(t *testing.T) {
	h := host(t)
	self := owner(strconv.Itoa(os.Getpid()))
	cmd, kept := exec.CommandContext(t.Context(), "/usr/bin/sleep", "600"), exec.CommandContext(t.Context(), "/usr/bin/sleep", "600")
	for _, c := range []*exec.Cmd{cmd, kept} {
		release, err := h.Start(c, Jail{User: FirstUser + 7})
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	// Rename the first program's cgroups, as if an earlier process with the
	// same id had made them.
	pid := strconv.Itoa(os.Getpid())
	for _, tree := range h.trees {
		from := fmt.Sprintf("%s%s-%d", h.prefix, self, last.Load()-1)
		if err := tree.Limit(h.prefix+pid+".1-1", h.limits); err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(tree.Dir, h.prefix+pid+".1-1", "cgroup.procs")
		if err := os.WriteFile(to, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
		if err := unix.Rmdir(filepath.Join(tree.Dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.sweep(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(kept.Process.Pid, 0); err != nil {
		t.Error("the sleeper of this process was killed")
	}
	_ = kept.Process.Kill()
	if err := kept.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if memory, processes := h.Limited(); !memory && !processes {
		_ = cmd.Process.Kill() // without cgroups, sweep cannot find the program
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
}
