package agent

import (
	"fmt"
	"strings"
)

type (
	// MachineOutOfMemory records that the kernel killed processes of the
	// machine because a memory limit was reached. The run continues.
	MachineOutOfMemory struct {
		MachineID string `json:"machineId"`
		// Kills is the number of processes killed since the last such event.
		Kills      int   `json:"kills"`
		LimitBytes int64 `json:"limitBytes,omitempty"` // limit of the machine
		// Killed lists the killed processes. Largest lists the processes that used the
		// most memory before the last kill, the largest first. Both are empty if the
		// server cannot read the kernel's log.
		Killed  []Process `json:"killed,omitempty"`
		Largest []Process `json:"largest,omitempty"`
		// Ended says that the machine ended with all its processes.
		Ended bool `json:"ended,omitempty"`
		// Container says that a container in the machine reached its own limit.
		Container bool   `json:"container,omitempty"`
		CallID    string `json:"callId,omitempty"` // the call whose result contains the message; "" if the message is a notice
		Message   string `json:"message"`          // Text, as the model receives it
	}
	// MachineDiskFull records that the machine was stopped because it exceeded
	// its disk limit. It is restarted with some free space, and the run
	// continues.
	MachineDiskFull struct {
		MachineID  string `json:"machineId"`
		UsedBytes  int64  `json:"usedBytes"`
		LimitBytes int64  `json:"limitBytes"`
		CallID     string `json:"callId,omitempty"` // as in MachineOutOfMemory
		Message    string `json:"message"`          // as in MachineOutOfMemory
	}
	// A Process is a process of a machine and the memory that it used. Its name
	// comes from the machine.
	Process struct {
		Name  string `json:"name"`
		Bytes int64  `json:"bytes,omitempty"`
	}
)

// CodeOutOfMemory and CodeDiskLimit are the codes of the notices that the machine
// ran out of memory or exceeded its disk limit while no call ran.
const (
	CodeOutOfMemory = "out_of_memory"
	CodeDiskLimit   = "disk_limit"
)

var _ = register(&MachineOutOfMemory{}, &MachineDiskFull{})

// Kind returns the name of the event type in the journal.
func (*MachineOutOfMemory) Kind() string { return "machine.out_of_memory" }

// Kind returns the name of the event type in the journal.
func (*MachineDiskFull) Kind() string { return "machine.disk_full" }

// Text describes the shortage for the model and for people.
func (o *MachineOutOfMemory) Text() string {
	var b strings.Builder
	b.WriteString("killed: ")
	switch limit := ""; {
	case o.Container:
		b.WriteString("a container in the machine ran out of memory (its own limit)")
	default:
		if o.LimitBytes > 0 {
			limit = " (limit " + bytesText(o.LimitBytes) + ")"
		}
		b.WriteString("the machine ran out of memory" + limit)
	}
	switch {
	case len(o.Killed) > 0:
		fmt.Fprintf(&b, "; the kernel killed %s", processes(o.Killed))
	case o.Ended:
		b.WriteString("; it ended with all its processes")
	case o.Kills > 1:
		fmt.Fprintf(&b, "; the kernel killed %d processes", o.Kills)
	default:
		b.WriteString("; the kernel killed a process")
	}
	if len(o.Largest) > 0 {
		b.WriteString("; largest processes: " + processes(o.Largest))
	}
	return b.String()
}

// Text describes the shortage for the model and for people.
func (d *MachineDiskFull) Text() string {
	return fmt.Sprintf("the machine was stopped because its files take %s and its disk limit is %s; it starts again with a little free space: "+
		"remove what is not needed before you write more", bytesText(d.UsedBytes), bytesText(d.LimitBytes))
}

// maxNamed is how many processes a text names.
const maxNamed = 5

func processes(all []Process) string {
	var out []string
	for i, p := range all {
		if i == maxNamed {
			out = append(out, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		name := p.Name
		if p.Bytes > 0 {
			name += " " + bytesText(p.Bytes)
		}
		out = append(out, name)
	}
	return strings.Join(out, ", ")
}

// bytesText returns a size in GiB or MiB.
func bytesText(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<30)), ".0") + " GiB"
}

// countKills folds an event that changes Kills.
func (m *MachineRecord) countKills(b Body) {
	switch b := b.(type) {
	case *MachineOutOfMemory:
		m.Kills += b.Kills
	case *MachineMade, *MachineHibernated: // the next boot counts from 0
		m.Kills = 0
	case *MachineReady:
		if b.BootID != m.LastBootID {
			m.Kills = 0
		}
	case *MachineWoken:
		if b.BootID != m.LastBootID {
			m.Kills = 0
		}
	}
}
