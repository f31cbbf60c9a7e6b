package container

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/control/machine/machinetest/standin"
	"aloft/internal/fault"
)

// TestOutOfMemory has real machines reach their memory limit. The kernel's log
// names the killed process. gVisor has one process for the whole machine.
func TestOutOfMemory(t *testing.T) {
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRuntime(t, t.TempDir(), path)
			m := create(t, r, machine.Spec{Image: "host", Limits: machine.Limits{MemoryBytes: 128 << 20, PIDs: 100}}).(*Machine)
			if o, ok := m.OutOfMemory(0); ok {
				t.Errorf("a new machine has %+v", o)
			}
			hog := []string{"sh", "-c", "ln -sf /usr/bin/tail /tmp/greedy; head -c 1G /dev/zero | /tmp/greedy | wc -c"}
			if name == "runsc" {
				ends := make(chan error, 1)
				go func() { ends <- m.Wait(t.Context()) }()
				_, _ = standin.Ask(t.Context(), machinetest.Connect(t, m), standin.Request{Argv: hog}) // the connection ends with the machine
				if err := <-ends; err != nil {
					t.Fatal(err)
				}
				o, ok := m.OutOfMemory(0)
				if !ok || !o.Ended || o.Kills == 0 || len(o.Killed) != 0 || o.Limit != 128<<20 {
					t.Errorf("got %+v, %v", o, ok)
				}
			} else {
				got := ask(t, m, hog...)
				if strings.TrimSpace(got.Output) == "1073741824" {
					t.Fatalf("1 GiB fits into 128 MiB: %+v", got)
				}
				o, ok := m.OutOfMemory(0)
				if !ok || o.Kills != 1 || o.Ended || o.Container || o.Limit != 128<<20 || len(o.Killed) != 1 || o.Killed[0].Name != "greedy" || o.Killed[0].Bytes < 64<<20 {
					t.Fatalf("got %+v, %v", o, ok)
				}
				if o.Largest[0] != o.Killed[0] || !slices.ContainsFunc(o.Largest, func(p machine.Process) bool { return p.Name == "wc" }) {
					t.Errorf("the largest processes are %+v", o.Largest)
				}
				if o, ok := m.OutOfMemory(1); ok {
					t.Errorf("a kill is reported again: %+v", o)
				}
				ask(t, m, hog...)
				if o, ok := m.OutOfMemory(1); !ok || o.Kills != 2 || len(o.Killed) != 1 {
					t.Errorf("the second kill is %+v, %v", o, ok)
				}
				if err := m.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if o, ok := m.OutOfMemory(0); ok {
				t.Errorf("the next boot begins with %+v", o)
			}
		})
	}
}

// TestGuaranteedMemory checks that the memory guaranteed to machines does not
// exceed the host's memory, and that only running machines count.
func TestGuaranteedMemory(t *testing.T) {
	r := newRuntime(t, t.TempDir(), engines(t)["runc"])
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		t.Fatal(err)
	}
	half := int64(host.Totalram)*int64(host.Unit)/2 + 1
	first := create(t, r, machine.Spec{Image: "host", Limits: machine.Limits{GuaranteedMemoryBytes: half, GuaranteedCPUs: 0.5}}).(*Machine)
	second := machine.Spec{ID: "m-2", Image: "host", Limits: machine.Limits{GuaranteedMemoryBytes: half}}
	if _, err := r.Create(t.Context(), second); fault.Of(err).Code != "memory_full" {
		t.Errorf("two machines are guaranteed more than all memory: %v", err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := r.Create(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Restart(t.Context()); fault.Of(err).Code != "memory_full" {
		t.Errorf("a machine restarts beyond all memory: %v", err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Restart(t.Context()); err != nil {
		t.Error(err)
	}
}
