package execd

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// ReadBinaryFile returns part of a file, at most 64 MiB.
func (s *Server) ReadBinaryFile(_ context.Context, req *connect.Request[agentv1.ReadBinaryFileRequest]) (*connect.Response[agentv1.ReadBinaryFileResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	b, size, err := readPart(path, req.Msg.GetOffset(), req.Msg.GetLimit())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.ReadBinaryFileResponse{Contents: b, FileSizeBytes: size}), nil
}
