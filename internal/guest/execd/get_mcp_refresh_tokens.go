package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// GetMcpRefreshTokens returns none: the control plane signs in to MCP servers
// and keeps the tokens out of the machine.
func (s *Server) GetMcpRefreshTokens(context.Context, *connect.Request[agentv1.GetMcpRefreshTokensRequest]) (*connect.Response[agentv1.GetMcpRefreshTokensResponse], error) {
	return connect.NewResponse(&agentv1.GetMcpRefreshTokensResponse{}), nil
}
