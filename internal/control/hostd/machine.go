package hostd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// full lists the interfaces that a machine of the host-daemon's runtime must
// implement.
type full interface {
	machine.Snapshotter
	machine.Checkpointer
	machine.Networked
	machine.MemoryAccounted
	machine.Measured
	machine.SocketMeasured
	DiskUsage(ctx context.Context) (bytes, inodes int64, err error)
}

// layerArgs are the arguments of methods that name a machine and a layer.
type layerArgs struct{ ID, Layer string }

// policyArgs are the arguments of setPolicy.
type policyArgs struct {
	ID      string
	Network policy.Network
}

// memoryArgs are the arguments of outOfMemory, and memoryValue is its result.
type (
	memoryArgs struct {
		ID    string
		Known int
	}
	memoryValue struct {
		machine.OutOfMemory
		OK bool
	}
)

// machineState is the value of state.
type machineState struct{ Running, Asleep bool }

// find returns the machine with the id.
func find(ctx context.Context, h *Opened, id string) (full, error) {
	m, err := h.Machines.Open(ctx, id)
	if err != nil {
		return nil, err
	}
	f, ok := m.(full)
	if !ok {
		return nil, fault.NotImplemented("machine %s is of another kind", id)
	}
	return f, nil
}

// onMachine returns the handler of a method of a machine, with the machine's id as its
// only argument.
func onMachine(do func(ctx context.Context, m full) (any, error)) handler {
	return on(func(ctx context.Context, h *Opened, id string) (any, error) {
		m, err := find(ctx, h, id)
		if err != nil {
			return nil, err
		}
		return do(ctx, m)
	})
}

// dialing returns the handler of a method that connects to a socket of a
// machine and passes the connection.
func dialing(dial func(ctx context.Context, m full) (net.Conn, error)) handler {
	return with(func(ctx context.Context, _ *session, h *Opened, id string) (any, []*os.File, error) {
		m, err := find(ctx, h, id)
		if err != nil {
			return nil, nil, err
		}
		conn, err := dial(ctx, m)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = conn.Close() }() // the server has its own copy
		c, ok := conn.(interface{ File() (*os.File, error) })
		if !ok {
			return nil, nil, fmt.Errorf("a connection of type %T cannot be passed", conn)
		}
		f, err := c.File()
		return nil, []*os.File{f}, err
	})
}

var machineMethods = map[string]handler{
	"create": on(func(ctx context.Context, h *Opened, spec machine.Spec) (any, error) {
		if err := h.Allow(spec); err != nil {
			return nil, err
		}
		_, err := h.Machines.Create(ctx, spec)
		return nil, err
	}),
	"find": onMachine(func(context.Context, full) (any, error) { return nil, nil }),
	"list": on(func(ctx context.Context, h *Opened, _ none) (any, error) { return h.Machines.List(ctx) }),

	"dial":        dialing(func(ctx context.Context, m full) (net.Conn, error) { return m.Dial(ctx) }),
	"dialGateway": dialing(func(ctx context.Context, m full) (net.Conn, error) { return m.DialGateway(ctx) }),
	"wait":        onMachine(func(ctx context.Context, m full) (any, error) { return nil, m.Wait(ctx) }),
	"restart":     onMachine(func(ctx context.Context, m full) (any, error) { return nil, m.Restart(ctx) }),
	"destroy":     onMachine(func(ctx context.Context, m full) (any, error) { return nil, m.Destroy(ctx) }),
	"stop":        onMachine(func(ctx context.Context, m full) (any, error) { return nil, m.Stop(ctx) }),
	"diskBytes":   onMachine(func(ctx context.Context, m full) (any, error) { return m.DiskBytes(ctx) }),
	"socketBytes": onMachine(func(ctx context.Context, m full) (any, error) { return m.SocketBytes(ctx) }),
	"diskUsage":   onMachine(func(ctx context.Context, m full) (any, error) { return usageOf(m.DiskUsage(ctx)) }),
	"state":       onMachine(func(_ context.Context, m full) (any, error) { return machineState{m.Running(), m.Asleep()}, nil }),
	"freeze": on(func(ctx context.Context, h *Opened, a layerArgs) (any, error) {
		m, err := find(ctx, h, a.ID)
		if err != nil {
			return nil, err
		}
		return nil, m.Freeze(ctx, a.Layer)
	}),
	"keepMemory": on(func(ctx context.Context, h *Opened, a layerArgs) (any, error) {
		m, err := find(ctx, h, a.ID)
		if err != nil {
			return nil, err
		}
		return nil, m.KeepMemory(ctx, a.Layer)
	}),
	"checkpoint": with(func(ctx context.Context, s *session, h *Opened, id string) (any, []*os.File, error) {
		m, err := find(ctx, h, id)
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, m.Checkpoint(ctx, s.ask)
	}),
	"setPolicy": on(func(ctx context.Context, h *Opened, a policyArgs) (any, error) {
		m, err := find(ctx, h, a.ID)
		if err != nil {
			return nil, err
		}
		return nil, m.SetPolicy(ctx, a.Network)
	}),
	"outOfMemory": on(func(ctx context.Context, h *Opened, a memoryArgs) (any, error) {
		m, err := find(ctx, h, a.ID)
		if err != nil {
			return nil, err
		}
		o, ok := m.OutOfMemory(a.Known)
		return memoryValue{o, ok}, nil
	}),
}

// machines is a [machine.Runtime] that calls a host-daemon.
type machines struct{ c *Client }

// Create implements [machine.Runtime].
func (r machines) Create(ctx context.Context, spec machine.Spec) (machine.Machine, error) {
	if _, err := r.c.do(ctx, "create", spec, nil, options{}); err != nil {
		return nil, err
	}
	return &remote{r.c, spec.ID}, nil
}

// Open implements [machine.Runtime].
func (r machines) Open(ctx context.Context, id string) (machine.Machine, error) {
	if _, err := r.c.do(ctx, "find", id, nil, options{}); err != nil {
		return nil, err
	}
	return &remote{r.c, id}, nil
}

// List implements [machine.Runtime].
func (r machines) List(ctx context.Context) (ids []string, err error) {
	_, err = r.c.do(ctx, "list", none{}, &ids, options{})
	return ids, err
}

// remote is a machine of a host-daemon.
type remote struct {
	c  *Client
	id string
}

var _ full = (*remote)(nil)

// ID implements [machine.Machine].
func (m *remote) ID() string { return m.id }

func (m *remote) do(ctx context.Context, method string) error {
	_, err := m.c.do(ctx, method, m.id, nil, options{})
	return err
}

// dial calls a method that passes a connection.
func (m *remote) dial(ctx context.Context, method string) (net.Conn, error) {
	files, err := m.c.do(ctx, method, m.id, nil, options{})
	if err != nil {
		return nil, err
	}
	defer closeAll(files) // FileConn has its own copy
	if len(files) != 1 {
		return nil, fmt.Errorf("%s: %d connections", method, len(files))
	}
	return net.FileConn(files[0])
}

// Dial implements [machine.Machine].
func (m *remote) Dial(ctx context.Context) (net.Conn, error) { return m.dial(ctx, "dial") }

// DialGateway implements [machine.Networked].
func (m *remote) DialGateway(ctx context.Context) (net.Conn, error) {
	return m.dial(ctx, "dialGateway")
}

// Wait implements [machine.Machine].
func (m *remote) Wait(ctx context.Context) error {
	err := m.do(ctx, "wait")
	if errors.Is(err, machine.ErrNotFound) {
		return nil // the machine does not run
	}
	return err
}

// Restart implements [machine.Machine].
func (m *remote) Restart(ctx context.Context) error { return m.do(ctx, "restart") }

// Destroy implements [machine.Machine].
func (m *remote) Destroy(ctx context.Context) error {
	m.c.quiet.forget(m.id)
	err := m.do(ctx, "destroy")
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	return err
}

// Stop implements [machine.Snapshotter].
func (m *remote) Stop(ctx context.Context) error { return m.do(ctx, "stop") }

// Freeze implements [machine.Snapshotter].
func (m *remote) Freeze(ctx context.Context, id string) error {
	_, err := m.c.do(ctx, "freeze", layerArgs{m.id, id}, nil, options{})
	return err
}

// Checkpoint implements [machine.Checkpointer].
func (m *remote) Checkpoint(ctx context.Context, letGo func(context.Context) error) error {
	_, err := m.c.do(ctx, "checkpoint", m.id, nil, options{answer: letGo})
	return err
}

// KeepMemory implements [machine.Checkpointer].
func (m *remote) KeepMemory(ctx context.Context, layer string) error {
	_, err := m.c.do(ctx, "keepMemory", layerArgs{m.id, layer}, nil, options{})
	return err
}

// state returns the machine's state. A machine whose host-daemon does not answer counts as
// stopped.
func (m *remote) state() (s machineState) {
	_, _ = m.c.do(context.Background(), "state", m.id, &s, options{})
	return s
}

// Asleep implements [machine.Checkpointer].
func (m *remote) Asleep() bool { return m.state().Asleep }

// Running implements [machine.Measured].
func (m *remote) Running() bool { return m.state().Running }

// DiskBytes implements [machine.Measured].
func (m *remote) DiskBytes(ctx context.Context) (n int64, err error) {
	_, err = m.c.do(ctx, "diskBytes", m.id, &n, options{})
	return n, err
}

// SocketBytes implements [machine.SocketMeasured].
func (m *remote) SocketBytes(ctx context.Context) (n int64, err error) {
	_, err = m.c.do(ctx, "socketBytes", m.id, &n, options{})
	return n, err
}

// DiskUsage returns the disk usage of the machine: bytes and the number of inodes.
func (m *remote) DiskUsage(ctx context.Context) (bytes, inodes int64, err error) {
	var u usage
	_, err = m.c.do(ctx, "diskUsage", m.id, &u, options{})
	return u.Bytes, u.Inodes, err
}

// SetPolicy implements [machine.Networked].
func (m *remote) SetPolicy(ctx context.Context, n policy.Network) error {
	_, err := m.c.do(ctx, "setPolicy", policyArgs{m.id, n}, nil, options{})
	return err
}

// OutOfMemory implements [machine.MemoryAccounted].
func (m *remote) OutOfMemory(known int) (machine.OutOfMemory, bool) {
	var v memoryValue
	more := m.c.quiet.ask(m.id, known, func() bool {
		_, err := m.c.do(context.Background(), "outOfMemory", memoryArgs{m.id, known}, &v, options{})
		return err == nil && v.OK
	})
	return v.OutOfMemory, more
}
