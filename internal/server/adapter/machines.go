// Package adapter adapts the scheduler, the fleet, the builder of environments
// and the store of artifacts to the interfaces of the API.
package adapter

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/coder/websocket"

	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/execclient"
	"aloft/internal/control/fleet"
	"aloft/internal/terminal"
)

// Machines implements [machineapi.Machines] with the machines of the fleet.
type Machines struct{ Fleet *fleet.Fleet }

var _ machineapi.Machines = Machines{}

// pty is a PTY with the machine access that it uses.
type pty struct {
	*websocket.Conn
	access io.Closer
}

// Close implements [machineapi.PTY].
func (p pty) Close() error { return errors.Join(p.CloseNow(), p.access.Close()) }

// Open implements [machineapi.Machines].
func (m Machines) Open(ctx context.Context, agentID, stream string) (net.Conn, error) {
	return m.Fleet.Open(ctx, agentID, stream)
}

// PTY implements [machineapi.Machines].
func (m Machines) PTY(ctx context.Context, agentID string) (machineapi.PTY, error) {
	access, err := m.Fleet.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	ws, err := execclient.DialPTY(ctx, access.Conn, access.Token)
	if err != nil {
		return nil, errors.Join(err, access.Close())
	}
	return pty{ws, access}, nil
}

// terminals calls do with the terminals of an agent's machine.
func (m Machines) terminals(ctx context.Context, agentID string, do func(*execclient.Terminals) error) error {
	access, err := m.Fleet.Access(ctx, agentID)
	if err != nil {
		return err
	}
	terminals := execclient.NewTerminals(access.Conn, access.Token)
	err = do(terminals)
	terminals.Close()
	return errors.Join(err, access.Close())
}

// Terminals implements [machineapi.Machines].
func (m Machines) Terminals(ctx context.Context, agentID string) (list []terminal.Terminal, err error) {
	err = m.terminals(ctx, agentID, func(t *execclient.Terminals) error {
		list, err = t.List(ctx)
		return err
	})
	return list, err
}

// Ports implements [machineapi.Machines].
func (m Machines) Ports(ctx context.Context, agentID string) ([]machineapi.Port, error) {
	access, err := m.Fleet.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	list, err := access.Conn.Ports(ctx)
	ports := make([]machineapi.Port, 0, len(list))
	for _, p := range list {
		ports = append(ports, machineapi.Port(p))
	}
	return ports, errors.Join(err, access.Close())
}

// CreateTerminal implements [machineapi.Machines].
func (m Machines) CreateTerminal(ctx context.Context, agentID string, n terminal.New) (made terminal.Terminal, created bool, err error) {
	err = m.terminals(ctx, agentID, func(t *execclient.Terminals) error {
		made, created, err = t.Create(ctx, n)
		return err
	})
	return made, created, err
}

// files is a machine's file service with the machine access that it uses.
type files struct {
	*execclient.Files
	access io.Closer
}

// Files implements [machineapi.Machines].
func (m Machines) Files(ctx context.Context, agentID string) (machineapi.Files, error) {
	access, err := m.Fleet.Access(ctx, agentID)
	if err != nil {
		return nil, err
	}
	return files{execclient.NewFiles(access.Conn, access.Token), access}, nil
}

// Close implements [machineapi.Files].
func (f files) Close() error {
	f.Files.Close()
	return f.access.Close()
}
