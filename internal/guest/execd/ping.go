package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// Ping reports that exec-daemon is running.
func (s *Server) Ping(context.Context, *connect.Request[agentv1.PingRequest]) (*connect.Response[agentv1.PingResponse], error) {
	return connect.NewResponse(&agentv1.PingResponse{Version: s.version, BootId: s.bootID}), nil
}
