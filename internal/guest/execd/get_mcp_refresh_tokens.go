package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// GetMcpRefreshTokens returns none: the control plane signs in to MCP servers, and
// what that gives enters no machine.
func (s *Server) GetMcpRefreshTokens(context.Context, *connect.Request[agentv1.GetMcpRefreshTokensRequest]) (*connect.Response[agentv1.GetMcpRefreshTokensResponse], error) {
	return connect.NewResponse(&agentv1.GetMcpRefreshTokensResponse{}), nil
}
