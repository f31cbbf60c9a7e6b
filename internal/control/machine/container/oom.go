package container

import (
	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/oomlog"
	"aloft/internal/fault"
)

var _ machine.MemoryAccounted = (*Machine)(nil)

// OutOfMemory implements [machine.MemoryAccounted]. The cgroup counts the kills;
// the kernel's log names the processes.
func (m *Machine) OutOfMemory(known int) (o machine.OutOfMemory, ok bool) {
	if o.Kills = m.r.kills.Kills(m.cgroup); o.Kills <= known {
		return o, false
	}
	rec, err := m.record()
	if err != nil {
		return o, false
	}
	o.Limit, o.Ended = rec.Spec.Limits.MemoryBytes, !m.running()
	eng, err := m.r.engine(rec.Spec.Class)
	if err != nil || eng.gvisor { // on the host, gVisor itself is the only process
		return o, err == nil
	}
	kills := oomlog.Read(m.r.prefix, m.cgroup, insideCgroup)
	kills = kills[max(0, len(kills)-(o.Kills-known)):]
	o.Container = len(kills) > 0
	for _, k := range kills {
		o.Killed = append(o.Killed, k.Victim)
		o.Largest = k.Largest
		o.Container = o.Container && k.Nested
	}
	return o, true
}

// hasMemoryFor returns a fault if the running machines and the new one would be
// guaranteed more memory than the host has.
func (r *Runtime) hasMemoryFor(spec machine.Spec) error {
	asked := spec.Limits.GuaranteedMemoryBytes
	if asked == 0 {
		return nil
	}
	sum, running := r.guaranteed()
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return err
	}
	if total := int64(host.Totalram) * int64(host.Unit); sum+asked > total {
		return fault.Exhausted("cannot create a machine: %d running machines are guaranteed %d MiB of the host's %d MiB of memory, and this one needs %d MiB",
			running, sum>>20, total>>20, asked>>20).Named("memory_full").
			Hint("send a follow-up when a machine has gone to sleep, or lower machine.guaranteed_memory_bytes")
	}
	return nil
}

// guaranteed returns the sum of the memory that running machines are guaranteed,
// and how many machines have a guarantee.
func (r *Runtime) guaranteed() (sum int64, running int) {
	ids, err := r.List(r.ctx)
	if err != nil {
		return 0, 0
	}
	for _, id := range ids {
		m := r.handle(id)
		if rec, err := m.record(); err == nil && rec.Spec.Limits.GuaranteedMemoryBytes > 0 && m.running() {
			sum += rec.Spec.Limits.GuaranteedMemoryBytes
			running++
		}
	}
	return sum, running
}
