// Package adapter gives the scheduler, the builder of environments and the store of
// artifacts the interfaces that the API wants.
package adapter

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/coder/websocket"

	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/pod"
	"aloft/internal/control/schedule"
)

// Machines implements [machineapi.Machines] with the scheduler's access to machines.
type Machines struct{ Schedule *schedule.Scheduler }

var _ machineapi.Machines = Machines{}

// pty is a PTY together with the machine access that it uses.
type pty struct {
	*websocket.Conn
	access io.Closer
}

// Close implements [machineapi.PTY].
func (p pty) Close() error { return errors.Join(p.CloseNow(), p.access.Close()) }

// Open implements [machineapi.Machines].
func (m Machines) Open(ctx context.Context, agentID, stream string) (net.Conn, error) {
	return m.Schedule.Open(ctx, agentID, stream)
}

// PTY implements [machineapi.Machines].
func (m Machines) PTY(ctx context.Context, agentID string) (machineapi.PTY, error) {
	access, err := m.Schedule.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	ws, err := access.Conn.DialPTY(ctx, access.Token)
	if err != nil {
		return nil, errors.Join(err, access.Close())
	}
	return pty{ws, access}, nil
}

// terminals calls do with the terminals of an agent's machine.
func (m Machines) terminals(ctx context.Context, agentID string, do func(*pod.Terminals) error) error {
	access, err := m.Schedule.Access(ctx, agentID)
	if err != nil {
		return err
	}
	terminals := access.Conn.Terminals(access.Token)
	err = do(terminals)
	terminals.Close()
	return errors.Join(err, access.Close())
}

// Terminals implements [machineapi.Machines].
func (m Machines) Terminals(ctx context.Context, agentID string) (list []machineapi.Terminal, err error) {
	err = m.terminals(ctx, agentID, func(t *pod.Terminals) error {
		found, err := t.List(ctx)
		for _, f := range found {
			list = append(list, apiTerminal(f))
		}
		return err
	})
	return list, err
}

// CreateTerminal implements [machineapi.Machines].
func (m Machines) CreateTerminal(ctx context.Context, agentID string, n machineapi.NewTerminal) (made machineapi.Terminal, created bool, err error) {
	err = m.terminals(ctx, agentID, func(t *pod.Terminals) error {
		found, isNew, err := t.Create(ctx, pod.NewTerminal{
			Name: n.Name, Command: n.Command, Directory: n.WorkingDirectory, Columns: n.Columns, Rows: n.Rows,
		})
		made, created = apiTerminal(found), isNew
		return err
	})
	return made, created, err
}

// files is a machine's file service together with the machine access that it uses.
type files struct {
	*pod.Files
	access io.Closer
}

// Files implements [machineapi.Machines].
func (m Machines) Files(ctx context.Context, agentID string) (machineapi.Files, error) {
	access, err := m.Schedule.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	return files{access.Conn.Files(access.Token), access}, nil
}

// List implements [machineapi.Files].
func (f files) List(ctx context.Context, path string) ([]machineapi.FileEntry, error) {
	found, err := f.Files.List(ctx, path)
	list := make([]machineapi.FileEntry, 0, len(found))
	for _, e := range found {
		list = append(list, machineapi.FileEntry(e))
	}
	return list, err
}

// Close implements [machineapi.Files].
func (f files) Close() error {
	f.Files.Close()
	return f.access.Close()
}

func apiTerminal(t pod.Terminal) machineapi.Terminal {
	out := machineapi.Terminal{
		Name: t.Name, Created: t.Created, Attached: t.Attached, Columns: t.Columns, Rows: t.Rows,
		Command: t.Command, WorkingDirectory: t.Directory,
	}
	if t.Dead {
		out.ExitCode = t.ExitCode
	}
	return out
}
