package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// WriteBinaryFile creates or replaces a file of at most 64 MiB.
func (s *Server) WriteBinaryFile(_ context.Context, req *connect.Request[agentv1.WriteBinaryFileRequest]) (*connect.Response[agentv1.WriteBinaryFileResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	if err := writeFile(path, req.Msg.GetContents()); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.WriteBinaryFileResponse{}), nil
}
