package server

import (
	"context"

	"aloft/internal/control/machine"
	"aloft/internal/control/tcpmem"
)

// tcpMemory returns the guard of the host's TCP memory.
func (s *Server) tcpMemory() *tcpmem.Guard {
	return tcpmem.New(tcpmem.Config{Machines: s.socketHolders, Stop: s.stopHolder, Logger: s.logger})
}

// socketHolders returns the machines of this host, including those of builds.
func (s *Server) socketHolders(ctx context.Context) ([]machine.SocketMeasured, error) {
	ids, err := s.host.Machines.List(ctx)
	if err != nil {
		return nil, err
	}
	var all []machine.SocketMeasured
	for _, id := range ids {
		m, err := s.host.Machines.Open(ctx, id)
		if err != nil {
			continue // the machine is being destroyed
		}
		if m, ok := m.(machine.SocketMeasured); ok {
			all = append(all, m)
		}
	}
	return all, nil
}
