package cgroup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFiles checks which files set the maximum and the guaranteed sizes in both
// versions of cgroups.
func TestFiles(t *testing.T) {
	l := Limits{MemoryBytes: 4 << 30, CPUs: 2, PIDs: 100, GuaranteedMemoryBytes: 1 << 30, GuaranteedCPUs: 0.5}
	for v2, want := range map[bool]map[string]string{
		true: {
			"memory.max": "4294967296", "memory.swap.max": "0", "memory.low": "1073741824",
			"pids.max": "100", "cpu.max": "200000 100000", "cpu.weight": "50",
		},
		false: {
			"memory.limit_in_bytes": "4294967296", "memory.memsw.limit_in_bytes": "4294967296", "memory.soft_limit_in_bytes": "1073741824",
			"pids.max": "100", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "200000", "cpu.shares": "512",
		},
	} {
		got := map[string]string{}
		for _, c := range []string{"memory", "pids", "cpu"} {
			for _, f := range (Hierarchy{V2: v2}).Files(c, l) {
				got[f.Name] = f.Value
			}
			if none := (Hierarchy{V2: v2}).Files(c, Limits{}); len(none) != 0 {
				t.Errorf("without limits, %s gets %v", c, none)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("v2 is %v: %s", v2, diff)
		}
	}
}

// TestKills checks the count of kills in a cgroup and its descendants. On v2
// one file includes the descendants' kills; on v1 each cgroup has its own file.
func TestKills(t *testing.T) {
	v1, v2 := Hierarchy{Dir: t.TempDir(), controllers: []string{"memory"}}, Hierarchy{Dir: t.TempDir(), V2: true}
	for path, text := range map[string]string{
		filepath.Join(v1.Dir, "m/memory.oom_control"):          "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
		filepath.Join(v1.Dir, "m/docker/x/memory.oom_control"): "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
		filepath.Join(v2.Dir, "m/memory.events"):               "low 0\nhigh 0\nmax 9\noom 5\noom_kill 3\noom_group_kill 0\n",
		filepath.Join(v2.Dir, "m/docker/memory.events"):        "oom_kill 1\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []Hierarchy{v1, v2} {
		if n := h.Kills("m"); n != 3 {
			t.Errorf("%d kills with V2 %v, want 3", n, h.V2)
		}
		if n := h.Kills("gone"); n != 0 {
			t.Errorf("a cgroup that is gone has %d kills", n)
		}
	}
}
