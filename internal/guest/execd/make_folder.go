package execd

import (
	"context"
	"os"
	"path/filepath"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// MakeFolder creates a folder and its missing parents. It fails if the folder
// exists.
func (s *Server) MakeFolder(_ context.Context, req *connect.Request[agentv1.MakeFolderRequest]) (*connect.Response[agentv1.MakeFolderResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fileFault(path, err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fileFault(path, err)
	}
	return connect.NewResponse(&agentv1.MakeFolderResponse{}), nil
}
