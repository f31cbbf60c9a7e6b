package mirror

import (
	"net/netip"
	"slices"
	"testing"
)

// TestPinnedAddress checks that ssh connects to a pinned address, and that the zone of
// one does not reach the command line: a ProxyCommand may give it to a shell.
func TestPinnedAddress(t *testing.T) {
	argv, err := sshArgs("ssh://git@host.example/r", netip.MustParseAddr("192.0.2.1"), "upload-pack")
	if err != nil || !slices.Contains(argv, "HostName=192.0.2.1") {
		t.Errorf("got %q, %v", argv, err)
	}
	if argv, err := sshArgs("ssh://git@host.example/r", netip.MustParseAddr("fe80::1%h$(id)"), "upload-pack"); err == nil {
		t.Errorf("ssh gets a zone: %q", argv)
	}
}
