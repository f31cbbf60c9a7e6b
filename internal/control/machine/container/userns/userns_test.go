package userns

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/need"
)

// TestIDsOnDisk checks that every id of a file's owner is mapped once, that ids of
// other machines are not mapped, and that the maps obey the kernel's limits.
func TestIDsOnDisk(t *testing.T) {
	const first = FirstID + 5*IDs
	maps := idsOnDisk(first)
	for _, c := range []struct{ owner, host int }{
		{0, first}, {IDs - 1, first + IDs - 1}, {IDs, 0}, {IDs + 1, IDs + 1}, {FirstID - 1, FirstID - 1},
		{lastID + 1, lastID + 1}, {math.MaxUint32 - 2, math.MaxUint32 - 2}, {FirstID, -1}, {lastID, -1}, {math.MaxUint32, -1},
	} {
		var hosts []int
		for _, m := range maps {
			if c.owner >= m.ContainerID && c.owner < m.ContainerID+m.Size {
				hosts = append(hosts, m.HostID+c.owner-m.ContainerID)
			}
		}
		if c.host < 0 && len(hosts) > 0 || c.host >= 0 && (len(hosts) != 1 || hosts[0] != c.host) {
			t.Errorf("the owner %d is mapped to %v, want %d", c.owner, hosts, c.host)
		}
	}
	for i, m := range maps {
		for _, other := range maps[:i] {
			if m.HostID < other.HostID+other.Size && other.HostID < m.HostID+m.Size {
				t.Errorf("%+v and %+v have host ids in common", m, other)
			}
		}
	}
}

// TestOpen creates namespaces with and without a network.
func TestOpen(t *testing.T) {
	need.Root(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range []bool{false, true} {
		u, err := Open(self, FirstID, minNetworks, network)
		if err != nil {
			t.Fatal(err)
		}
		if u.First != FirstID || u.User == nil || u.Layers == nil || (u.Network != nil) != network {
			t.Errorf("with network %v: %+v", network, u)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing"), FirstID, minNetworks, false); err == nil {
		t.Error("a missing program is no error")
	}
}
