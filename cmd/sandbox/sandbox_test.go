package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/sandbox"
)

// The test's program is also sandbox itself, and the probe that it runs.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDBOX_TEST_AS") {
	case "sandbox":
		main()
	case "probe":
		fmt.Fprint(os.Stdout, probe(os.Args[1], os.Args[2:]))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// probe tries one thing and returns its errno's name, or "ok".
func probe(what string, args []string) string {
	var err error
	switch what {
	case "write":
		err = os.WriteFile(args[0], []byte("x"), 0o644)
	case "read":
		_, err = os.ReadFile(args[0])
	case "truncate":
		err = os.Truncate(args[0], 0)
	case "rename":
		err = os.Rename(args[0], args[1])
	case "ipv4":
		err = newSocket(unix.AF_INET, unix.SOCK_STREAM)
	case "ipv6":
		err = newSocket(unix.AF_INET6, unix.SOCK_DGRAM)
	case "packet":
		err = newSocket(unix.AF_PACKET, unix.SOCK_RAW)
	case "vsock":
		err = newSocket(unix.AF_VSOCK, unix.SOCK_STREAM)
	case "unix":
		err = newSocket(unix.AF_UNIX, unix.SOCK_STREAM)
	case "netlink":
		err = newSocket(unix.AF_NETLINK, unix.SOCK_RAW)
	case "io_uring":
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		err = errno
	case "abstract":
		_, err = net.Dial("unix", "@"+args[0])
	case "connect": // on a socket that was open before
		err = unix.Connect(3, &unix.SockaddrInet4{Port: 1, Addr: [4]byte{127, 0, 0, 1}})
	case "mount":
		err = unix.Mount("none", args[0], "tmpfs", 0, "")
	case "chown":
		err = os.Chown(args[0], 1, 1)
	}
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func newSocket(domain, kind int) error {
	fd, err := unix.Socket(domain, kind, 0)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// needABI skips the test where the kernel's Landlock is older than wanted.
func needABI(t *testing.T, want int) {
	t.Helper()
	if abi := sandbox.ABI(); abi < want {
		t.Skipf("needs Landlock ABI %d; this kernel has %d", want, abi)
	}
}

// sandboxed runs sandbox on a probe and returns what that found.
func sandboxed(t *testing.T, flags []string, probe ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(append(flags, "--", "env", "SANDBOX_TEST_AS=probe", self), probe...)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_AS=sandbox")
	if socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		f := os.NewFile(uintptr(socket), "socket")
		defer func() { _ = f.Close() }()
		cmd.ExtraFiles = []*os.File{f}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sandbox %q: %v: %s", args, err, stderr.String())
	}
	return string(out)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	needABI(t, 3)
	in, out := t.TempDir(), t.TempDir()
	for _, dir := range []string{in, out} {
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range []string{"file", "moved"} {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	readable := []string{"--ro", "/", "--rw", in, "--rw", "/dev/null"}
	enclosed := []string{"--ro", "/usr", "--ro", "/lib", "--ro=/bin", "--ro", "/proc", "--ro", filepath.Dir(testProgram(t)), "--rw", in}
	if _, err := os.Stat("/lib64"); err == nil {
		enclosed = append(enclosed, "--ro", "/lib64")
	}
	tests := []struct {
		flags []string
		probe []string
		want  string
	}{
		{readable, []string{"write", in + "/new"}, "ok"},
		{readable, []string{"truncate", in + "/file"}, "ok"},
		{readable, []string{"rename", in + "/moved", in + "/sub/moved"}, "ok"},
		{readable, []string{"write", "/dev/null"}, "ok"},
		{readable, []string{"read", out + "/file"}, "ok"},
		{readable, []string{"write", out + "/new"}, "EACCES"},
		{readable, []string{"write", out + "/file"}, "EACCES"},
		{readable, []string{"truncate", out + "/file"}, "EACCES"},
		{readable, []string{"rename", out + "/moved", in + "/stolen"}, "EACCES"},
		{enclosed, []string{"write", in + "/new"}, "ok"},
		{enclosed, []string{"read", out + "/file"}, "EACCES"},
		{nil, []string{"write", out + "/new"}, "ok"},
	}
	for _, tt := range tests {
		if got := sandboxed(t, tt.flags, tt.probe...); got != tt.want {
			t.Errorf("%q %q: %s, want %s", tt.flags, tt.probe, got, tt.want)
		}
	}
}

func testProgram(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	needABI(t, 6)
	abstract := "aloft-sandbox-test-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	l, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for probe, want := range map[string][2]string{ // free, without network
		"ipv4":     {"ok", "EPERM"},
		"ipv6":     {"", "EPERM"},
		"packet":   {"EPERM", "EPERM"},
		"vsock":    {"", "EPERM"},
		"io_uring": {"EFAULT", "EPERM"},
		"connect":  {"ECONNREFUSED", "EACCES"},
		"abstract": {"ok", "EPERM"},
		"unix":     {"ok", "ok"},
		"netlink":  {"ok", "ok"},
	} {
		for i, flags := range [][]string{nil, {"--no-network"}} {
			// What a kernel may be built without is not asked of it.
			if got := sandboxed(t, flags, probe, abstract); want[i] != "" && got != want[i] {
				t.Errorf("%s with %q: %s, want %s", probe, flags, got, want[i])
			}
		}
	}
}

// Even root is nobody inside.
func TestPrivileges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for probe, want := range map[string]string{"mount": "EPERM", "chown": "EPERM"} {
		if got := sandboxed(t, nil, probe, dir); got != want {
			t.Errorf("%s: %s, want %s", probe, got, want)
		}
	}
}

func TestExit(t *testing.T) {
	t.Parallel()
	self := testProgram(t)
	notExecutable := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notExecutable, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"--", "no-such-command"}, 127, "no-such-command"},
		{[]string{"--", notExecutable}, 126, "permission denied"},
		{[]string{"--ro", "/etc", "--", "true"}, 126, "permission denied"},
		{[]string{"--ro", "/no/such/path", "--", "true"}, 125, "path /no/such/path: no such file"},
		{[]string{"true"}, 125, "comes after --"},
		{[]string{}, 125, "there is no command"},
		{[]string{"--rw"}, 125, "wants a path"},
		{[]string{"--rwx", "/", "--", "true"}, 125, `"--rwx" is not known`},
		{[]string{"--help"}, 0, ""},
		{[]string{"--ro", "/", "--plan"}, 0, ""},
	}
	for _, tt := range tests {
		cmd := exec.Command(self, tt.args...)
		cmd.Env = append(os.Environ(), "SANDBOX_TEST_AS=sandbox")
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = io.Discard, &stderr
		_ = cmd.Run() // the exit is looked at below
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(stderr.String(), tt.says) {
			t.Errorf("sandbox %q: exit %d, %q; want %d with %q", tt.args, code, stderr.String(), tt.code, tt.says)
		}
	}
}

func BenchmarkTrue(b *testing.B) {
	dir := b.TempDir()
	program := filepath.Join(dir, "sandbox")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for name, args := range map[string][]string{
		"bare":      {"/bin/true"},
		"sandboxed": {program, "--ro", "/", "--rw", "/tmp", "--no-network", "--", "/bin/true"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
