// Package machine defines the interface of a runtime, which creates machines:
// isolated environments in which one agent's tools run. The runtimes are the
// packages below this one; package machinetest is their common test suite.
package machine

import (
	"context"
	"errors"
	"fmt"
	"net"

	"aloft/internal/policy"
)

// ErrNotFound is returned, wrapped, by Open if the machine does not exist.
var ErrNotFound = errors.New("machine not found")

// ErrStopped is returned, wrapped, by Dial if the machine exists but does not
// run.
var ErrStopped = errors.New("machine is not running")

// A Runtime creates machines. Its methods are safe for concurrent use.
type Runtime interface {
	// Create creates and starts a machine with pod-daemon as PID 1. Once it has
	// returned, Open finds the machine, even after a restart of the server. On
	// error nothing is left behind. Spec.ID must be new.
	Create(ctx context.Context, spec Spec) (Machine, error)
	// Open returns an existing machine, running or not. The error wraps
	// [ErrNotFound] if there is none.
	Open(ctx context.Context, id string) (Machine, error)
	// List returns the IDs of all machines on this runtime, including those
	// that no journal mentions.
	List(ctx context.Context) ([]string, error)
}

// A Machine is one machine. All work inside it goes through the pod-daemon that
// Dial connects to: a Runtime knows nothing about tools, files or shells. Its
// methods are safe for concurrent use.
type Machine interface {
	ID() string
	// Dial connects to pod-daemon. It waits until pod-daemon listens, as long as
	// the machine runs and ctx lasts. The error wraps [ErrStopped] if the machine
	// does not run.
	Dial(ctx context.Context) (net.Conn, error)
	// Wait returns nil once the machine has stopped, or at once if it is
	// not running.
	Wait(ctx context.Context) error
	// Restart starts a stopped machine again on its disk. It fails if the machine
	// runs.
	Restart(ctx context.Context) error
	// Destroy stops the machine and deletes its disk and all its other files.
	// Destroying a missing or partly removed machine succeeds.
	Destroy(ctx context.Context) error
}

// Spec describes a machine to create.
type Spec struct {
	ID     string            // unique name: [A-Za-z0-9-], at most 63 characters
	Image  string            // "host", "rootfs:DIR", "oci:DIR[:TAG]", "local:NAME", or a reference such as debian:12
	Layer  string            // layer saved by Freeze, below the machine's disk; "" means the bare image
	Alive  bool              // resume from the memory saved with Layer, if possible
	Class  string            // "" is the runtime's default isolation, "strong" its strongest
	Env    map[string]string // environment of pod-daemon and thus of every process
	Limits Limits
	// Network says which hosts the machine may reach. The zero value means
	// loopback only. With any other mode the machine gets a network device, and
	// the policy is enforced outside of it.
	Network policy.Network
	// ConnectionLog is the name of the egress process's connection log. The log
	// outlives the machine, and a later machine can append to it. "" disables the
	// log.
	ConnectionLog string
}

// A Snapshotter is a [Machine] whose disk can be saved. Its methods are safe for
// concurrent use.
type Snapshotter interface {
	Machine
	// Stop kills every process of the machine and keeps its disk, so that Restart
	// can continue. Stopping a stopped machine is a no-op.
	Stop(ctx context.Context) error
	// Freeze saves the disk of the stopped machine as a new layer with the given
	// id (snapshot-YYYYMMDD-<uuid> or bld-YYYYMMDD-<uuid>). Machines with that
	// Spec.Layer start with the saved disk. The time does not depend on the
	// number of files. The machine itself continues on top of the layer, and the
	// layer outlives it. On error the machine is unchanged.
	Freeze(ctx context.Context, id string) error
}

// ErrNoMemory is returned, wrapped, by Checkpoint if the runtime cannot save
// memory.
var ErrNoMemory = errors.New("memory cannot be saved")

// A Checkpointer is a [Machine] that can be suspended with its processes. Its
// methods are safe for concurrent use.
type Checkpointer interface {
	Machine
	// Checkpoint saves the memory of the running machine and stops it. It calls
	// letGo to make pod-daemon close its connections. The next Restart resumes
	// from the saved memory, once. If it cannot resume, it boots from the disk,
	// and pod-daemon reports a new boot id. If this kind of machine cannot save
	// memory, the error wraps [ErrNoMemory] and nothing has changed. After any
	// other error the machine either runs or has stopped, and its disk is
	// intact.
	Checkpoint(ctx context.Context, letGo func(context.Context) error) error
	// KeepMemory keeps the memory of the suspended machine together with the
	// layer that Freeze has just saved, for as long as the layer exists. Machines
	// created from that layer with Spec.Alive resume from it.
	KeepMemory(ctx context.Context, layer string) error
	// Asleep reports whether the machine is stopped with its memory saved.
	Asleep() bool
}

// Networked is a [Machine] that can have a network. Its methods are safe for
// concurrent use.
type Networked interface {
	// DialGateway connects to the control socket of the machine's egress process.
	// The error wraps [ErrNoNetwork] if the machine has no network or that
	// process does not run.
	DialGateway(ctx context.Context) (net.Conn, error)
	// SetPolicy stores the policy with which the next egress process starts,
	// after a restart of the machine or of the process. To update the running
	// process, send it the policy after SetPolicy; in this order no process is
	// left with an older policy. The error wraps [ErrNoNetwork] if the machine
	// was created without a network.
	SetPolicy(ctx context.Context, n policy.Network) error
}

// ErrNoNetwork is returned, wrapped, by DialGateway and SetPolicy if the
// machine has no network.
var ErrNoNetwork = errors.New("machine has no gateway")

// ErrTooManyFiles is returned, wrapped, by DiskBytes.
var ErrTooManyFiles = errors.New("it holds more files than can be counted")

// Limits are a machine's maximum and guaranteed sizes. Zero means no limit, and
// no guarantee.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
	// GuaranteedMemoryBytes is memory that the kernel does not reclaim from the
	// machine while others use more than their guarantees.
	GuaranteedMemoryBytes int64
	// GuaranteedCPUs determines the machine's share while all CPUs are busy.
	GuaranteedCPUs float64
}

// OutOfMemory describes processes that the kernel killed because a memory limit
// was reached.
type OutOfMemory struct {
	Kills     int   // since the machine was started
	Limit     int64 // of the machine, in bytes
	Ended     bool  // the machine has ended with all its processes
	Container bool  // a container in the machine reached its own limit
	// Killed and Largest are empty if the kernel's log cannot be read. Largest
	// lists processes before the last kill, the largest first. Names come from the
	// machine.
	Killed, Largest []Process
}

// A Process is a process of a machine and the memory that it used.
type Process struct {
	Name  string
	Bytes int64
}

// MemoryAccounted is a [Machine] that reports processes that were killed for lack
// of memory. Its methods are safe for concurrent use.
type MemoryAccounted interface {
	Machine
	// OutOfMemory describes the kills in the current boot except the first known
	// ones, whether or not the machine still runs. ok is false if there are none.
	OutOfMemory(known int) (o OutOfMemory, ok bool)
}

// A DiskLimitError says that a machine was stopped because it exceeded its disk
// limit.
type DiskLimitError struct {
	Used, Limit int64 // in bytes
}

// Error implements error.
func (e DiskLimitError) Error() string {
	return fmt.Sprintf("the machine uses %d MiB of disk, and its limit is %d MiB", e.Used>>20, e.Limit>>20)
}

// SocketMeasured is a [Machine] whose memory for TCP connections can be measured. Its
// methods are safe for concurrent use.
type SocketMeasured interface {
	Machine
	// Running reports whether the machine is running.
	Running() bool
	// SocketBytes returns how many bytes of the host's TCP memory the machine's
	// connections use. The error wraps [ErrTooManyFiles] if its processes hold more
	// descriptors than can be inspected.
	SocketBytes(ctx context.Context) (int64, error)
}

// Measured is a [Machine] whose disk usage on this host can be measured. Its
// methods are safe for concurrent use.
type Measured interface {
	Machine
	// Running reports whether the machine is running.
	Running() bool
	// DiskBytes returns how many bytes the machine uses on the host's disk: its
	// own files, and deleted files that its processes still hold open. It walks
	// the machine's whole upper layer. The error wraps [ErrTooManyFiles] if the
	// processes hold more files than can be inspected, or if files are nested so
	// deep that they cannot be counted.
	DiskBytes(ctx context.Context) (int64, error)
	// Stop kills every process of the machine and keeps its disk for Restart.
	// Stopping a stopped machine is a no-op.
	Stop(ctx context.Context) error
}
