package mirror

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPinnedAddress checks that ssh connects to a pinned address, and that the
// address's zone does not reach the command line, because a ProxyCommand may pass it
// to a shell.
func TestPinnedAddress(t *testing.T) {
	argv, err := sshArgs("ssh://git@host.example/r", netip.MustParseAddr("192.0.2.1"), "upload-pack")
	if err != nil || !slices.Contains(argv, "HostName=192.0.2.1") {
		t.Errorf("got %q, %v", argv, err)
	}
	if argv, err := sshArgs("ssh://git@host.example/r", netip.MustParseAddr("fe80::1%h$(id)"), "upload-pack"); err == nil {
		t.Errorf("ssh gets a zone: %q", argv)
	}
}

// TestHomeOfSSH checks that ssh, which runs as root for an unprivileged server, has no
// home folder in which the server can write.
func TestHomeOfSSH(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte("#!/bin/sh\necho \"home is $HOME\" >&2\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	path := bin + ":" + os.Getenv("PATH")
	t.Setenv("PATH", path)
	l, err := NewLocal(LocalConfig{Dir: dir, Environ: []string{"PATH=" + path}, Server: os.Geteuid()})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(pair[0]), "near"), os.NewFile(uintptr(pair[1]), "far")
	defer near.Close()
	said := l.SSH(t.Context(), "ssh://host.invalid/r", netip.Addr{}, "upload-pack", nil, far)
	if !strings.Contains(said, "home is ") || strings.Contains(said, dir) {
		t.Errorf("ssh said %q", said)
	}
}
