package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// WriteTextFile creates or replaces a file of at most 64 MiB.
func (s *Server) WriteTextFile(_ context.Context, req *connect.Request[agentv1.WriteTextFileRequest]) (*connect.Response[agentv1.WriteTextFileResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	if err := writeFile(path, []byte(req.Msg.GetContents())); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.WriteTextFileResponse{}), nil
}
