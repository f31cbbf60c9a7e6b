package execd

import (
	"context"
	"unicode/utf8"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// ReadTextFile returns the contents of a file that is text in UTF-8, of at most 64 MiB.
func (s *Server) ReadTextFile(_ context.Context, req *connect.Request[agentv1.ReadTextFileRequest]) (*connect.Response[agentv1.ReadTextFileResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(b) {
		return nil, fault.Invalid("%s is not text in UTF-8", path).At("path").Hint("use ReadBinaryFile")
	}
	return connect.NewResponse(&agentv1.ReadTextFileResponse{Contents: string(b)}), nil
}
