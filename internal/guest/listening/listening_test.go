package listening

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// listen returns the port of a new listener.
func listen(t *testing.T, network, address string) uint16 {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// TestList finds this process's own ports by the real /proc, and no port that is
// unreachable from loopback.
func TestList(t *testing.T) {
	want := []uint16{listen(t, "tcp4", "127.0.0.1:0"), listen(t, "tcp4", "0.0.0.0:0"), listen(t, "tcp", "[::]:0"), listen(t, "tcp6", "[::1]:0")}
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	ports, err := List("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, port := range want {
		i := slices.IndexFunc(ports, func(p Port) bool { return p.Port == port })
		if i < 0 || ports[i].Program != strings.TrimSpace(string(name)) {
			t.Errorf("the port %d of %s is not in %v", port, name, ports)
		}
	}
	if !slices.IsSortedFunc(ports, func(a, b Port) int { return int(a.Port) - int(b.Port) }) {
		t.Errorf("%v are not sorted", ports)
	}
}

// TestReadSockets reads lines of proc(5): listeners elsewhere, connections and short
// lines are left out.
func TestReadSockets(t *testing.T) {
	const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0
   1: 010011AC:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 0 0 10 0
   2: 0100007F:0051 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 100 0 0 10 0
   3: 00000000:0052 00000000:0000 0A
   4: 00000000000000000000000001000000:0053 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 14
   5: 0000000000000000FFFF00000100007F:0054 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 15
   6: 000080FE000000000000000001000000:0055 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 16
`
	got := make(map[string]uint16)
	if err := readSockets(strings.NewReader(text), got); err != nil {
		t.Fatal(err)
	}
	for inode, port := range map[string]uint16{"11": 8080, "14": 0x53, "15": 0x54} {
		if got[inode] != port {
			t.Errorf("the socket %s has port %d, want %d", inode, got[inode], port)
		}
	}
	if len(got) != 3 {
		t.Errorf("found %v", got)
	}
	for _, line := range []string{"1: xyz:1 0:0 0A 0 0 0 0 0 1", "1: 0100007F:10000 0:0 0A 0 0 0 0 0 1", "1: 0100:1 0:0 0A 0 0 0 0 0 1"} {
		if err := readSockets(strings.NewReader("heading\n"+line+"\n"), got); err == nil {
			t.Errorf("%q is read without an error", line)
		}
	}
}
