// Package machine says what a runtime is: something that makes machines, each
// an isolated place where one agent's tools run. The runtimes are the packages
// below this one; machinetest is the suite that holds them all to these words.
package machine

import (
	"context"
	"errors"
	"net"

	"aloft/internal/policy"
)

// ErrNotFound is wrapped by Open where there is no such machine.
var ErrNotFound = errors.New("machine not found")

// ErrStopped is wrapped by Dial where the machine exists and does not run.
var ErrStopped = errors.New("machine is not running")

// A Runtime makes machines. Its methods are safe for concurrent use.
type Runtime interface {
	// Create makes a machine and starts it: pod-daemon is PID 1 there. When it
	// returns, Open finds the machine, even after this process has been
	// restarted. An error leaves nothing behind. Spec.ID must be new.
	Create(ctx context.Context, spec Spec) (Machine, error)
	// Open returns a machine made earlier, running or not. The error wraps
	// [ErrNotFound] if there is none.
	Open(ctx context.Context, id string) (Machine, error)
	// List returns the ID of every machine that this runtime holds, so that the
	// server can find what it has forgotten.
	List(ctx context.Context) ([]string, error)
}

// A Machine is one machine. All work inside it goes through the pod-daemon
// that Dial reaches: a Runtime knows nothing of tools, files or shells. Its
// methods are safe for concurrent use.
type Machine interface {
	ID() string
	// Dial connects to pod-daemon, waiting for it to listen while the machine
	// runs and ctx lasts. The error wraps [ErrStopped] if the machine does not run.
	Dial(ctx context.Context) (net.Conn, error)
	// Wait returns nil when the machine has stopped, at once if it does not run.
	Wait(ctx context.Context) error
	// Restart starts the machine again, on the disk that it left, after it
	// stopped. It is an error while the machine runs.
	Restart(ctx context.Context) error
	// Destroy stops the machine and removes everything that is its own, its disk
	// too. Destroying what is gone, or half gone, is no error.
	Destroy(ctx context.Context) error
}

// Spec is what a machine is made of.
type Spec struct {
	ID     string            // names the machine: [A-Za-z0-9-], at most 63 characters
	Image  string            // "host", "rootfs:DIR", "oci:DIR[:TAG]", "local:NAME", or a reference such as debian:12
	Layer  string            // saved by Freeze, on which the disk stands; "" is the bare image
	Alive  bool              // go on from the memory that is kept beside Layer, if there is any and it can be
	Class  string            // "" for the runtime's usual isolation, "strong" for its strongest
	Env    map[string]string // for pod-daemon, and so for every process
	Limits Limits
	// Network says what the machine may reach. The zero value is no network but
	// loopback; with any mode there is a device, and the policy is kept outside.
	Network policy.Network
	// ConnectionLog is the folder in which the gateway keeps its log, so that it
	// outlives the machine; a later machine goes on with it. "" keeps none.
	ConnectionLog string
}

// A Snapshotter is a [Machine] whose disk can be saved. Its methods are safe for
// concurrent use.
type Snapshotter interface {
	Machine
	// Stop ends every process of the machine, at once, and keeps its disk:
	// Restart continues. Stopping what does not run is no error.
	Stop(ctx context.Context) error
	// Freeze saves the disk of the machine, which must not run, as the layer of
	// that new id (snapshot-YYYYMMDD-<uuid> or bld-YYYYMMDD-<uuid>): a machine
	// whose Spec.Layer it is begins with that disk. It takes as long with a
	// million files as with none. The machine itself goes on above the layer, and
	// the layer outlives it. An error leaves the machine as it was.
	Freeze(ctx context.Context, id string) error
}

// ErrNoMemory is wrapped by Checkpoint where a runtime cannot save memory.
var ErrNoMemory = errors.New("memory cannot be saved")

// A Checkpointer is a [Machine] that can sleep with its processes alive. Its
// methods are safe for concurrent use.
type Checkpointer interface {
	Machine
	// Checkpoint saves the memory of the machine, which runs, and stops it. letGo
	// has pod-daemon end its connections. The next Restart goes on from there, once;
	// where that cannot be, it starts from the disk as always: who is told by
	// pod-daemon of another boot knows. The error wraps [ErrNoMemory] where machines
	// of this kind have no memory to save, and nothing was done; after another, the
	// machine runs or has stopped, and its disk is well.
	Checkpoint(ctx context.Context, letGo func(context.Context) error) error
	// KeepMemory keeps the memory with which the machine sleeps beside the layer that
	// Freeze has just saved of it, for as long as the layer is: machines whose
	// Spec.Layer it is go on from it where Spec.Alive asks for that.
	KeepMemory(ctx context.Context, layer string) error
	// Asleep reports whether the machine has stopped and its memory is saved.
	Asleep() bool
}

// Networked is a [Machine] that may have a network. Its methods are safe for
// concurrent use.
type Networked interface {
	// DialGateway connects to the control socket of the process that ends the
	// machine's network. The error wraps [ErrNoNetwork] if it has none, or if
	// that process does not run.
	DialGateway(ctx context.Context) (net.Conn, error)
	// SetPolicy says what the next such process begins with, be it started with
	// the machine or in place of one that died. The one that runs has to be told:
	// where it is told after SetPolicy, none is left with an older policy. The
	// error wraps [ErrNoNetwork] if the machine was made without a network.
	SetPolicy(ctx context.Context, n policy.Network) error
}

// ErrNoNetwork is wrapped by DialGateway where there is no gateway.
var ErrNoNetwork = errors.New("machine has no gateway")

// ErrTooManyFiles is wrapped by DiskBytes.
var ErrTooManyFiles = errors.New("its processes hold more open files than can be counted")

// Limits bound what a machine may use. Zero is no limit.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	PIDs        int64
}

// Measured is a [Machine] whose disk lies on this host, so that it can be seen
// how much of the host's it takes. Its methods are safe for concurrent use.
type Measured interface {
	Machine
	// Running reports whether the machine runs.
	Running() bool
	// DiskBytes returns how many bytes of the host's disk the machine holds: its
	// own files, and those that only its processes still hold open. It reads the
	// whole of the machine's own layer. It wraps [ErrTooManyFiles] where the
	// machine's processes hold more files than can be looked at.
	DiskBytes(ctx context.Context) (int64, error)
	// Stop kills everything in the machine, and keeps its disk, on which Restart
	// starts it again. Stopping what does not run is no error.
	Stop(ctx context.Context) error
}
