package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// Exec runs one call, or attaches to it, as ExecStream does. The result is kept
// until it is acknowledged on ExecStream.
func (s *Server) Exec(ctx context.Context, req *connect.Request[agentv1.ExecRequest], stream *connect.ServerStream[agentv1.ExecResponse]) error {
	c := s.calls.attach(req.Msg.GetCallId(), req.Msg.GetToolCall(), false)
	return c.follow(ctx, func(element *agentv1.ExecServerElement) error {
		if done := element.GetCompleted(); done != nil {
			return stream.Send(&agentv1.ExecResponse{Element: &agentv1.ExecResponse_Completed{Completed: done}})
		}
		return stream.Send(&agentv1.ExecResponse{Element: &agentv1.ExecResponse_Delta{Delta: element.GetDelta()}})
	})
}
