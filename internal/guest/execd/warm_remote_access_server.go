package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// WarmRemoteAccessServer starts the server through which an editor reaches the
// machine, and returns once it listens.
func (s *Server) WarmRemoteAccessServer(ctx context.Context, req *connect.Request[agentv1.WarmRemoteAccessServerRequest]) (*connect.Response[agentv1.WarmRemoteAccessServerResponse], error) {
	running, err := s.remote.Start(ctx, int(req.Msg.GetPort()))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.WarmRemoteAccessServerResponse{
		Program: running.Program, Port: int32(running.Port), AlreadyRunning: running.Already, ConnectionToken: running.Token,
	}), nil
}
