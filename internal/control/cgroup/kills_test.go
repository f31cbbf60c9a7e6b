package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestKillCounter checks that the cached count is used only for the same
// cgroup, and only if the host's count has not changed for a while.
func TestKillCounter(t *testing.T) {
	h := Hierarchy{Dir: t.TempDir(), V2: true}
	write := func(kills int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(h.Dir, "m"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.Dir, "m/memory.events"), []byte("oom_kill "+strconv.Itoa(kills)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	now, onHost := time.Unix(0, 0), 5
	k := KillCounter{host: func() (int, bool) { return onHost, true }, now: func() time.Time { return now }}
	want := func(n int, when string) {
		t.Helper()
		if got := k.kills([]Hierarchy{h}, "m"); got != n {
			t.Errorf("%s: %d kills, want %d", when, got, n)
		}
	}
	write(1)
	want(1, "at first")
	write(2)
	want(2, "counted for the cgroup after it was counted for the host")
	now = now.Add(SettleTime + 1)
	want(2, "a while later")
	write(3) // this cannot happen while the host's count is unchanged
	want(2, "from memory")
	onHost++
	want(3, "after a kill on the host")
	now = now.Add(SettleTime + 1)
	want(3, "a while later")
	if err := os.RemoveAll(filepath.Join(h.Dir, "m")); err != nil {
		t.Fatal(err)
	}
	want(0, "gone")
	write(0)
	want(0, "another cgroup of that name")
	k.host = func() (int, bool) { return 0, false }
	want(0, "at first, without a count of the host")
	now = now.Add(SettleTime + 1)
	want(0, "a while later, without a count of the host")
	write(1)
	want(1, "without a count of the host")
}

// TestHostKills checks that the kernel counts OOM kills on the host, and that
// the count never decreases.
func TestHostKills(t *testing.T) {
	first, ok := HostKills()
	if second, again := HostKills(); !ok || !again || second < first {
		t.Errorf("%d, %v; then %d, %v", first, ok, second, again)
	}
}
