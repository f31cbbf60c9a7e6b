package execd

import (
	"context"
	"os"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
)

// RemoveFile removes a file or a folder. It removes a symbolic link rather than
// its target.
func (s *Server) RemoveFile(_ context.Context, req *connect.Request[agentv1.RemoveFileRequest]) (*connect.Response[agentv1.RemoveFileResponse], error) {
	path, err := s.ownPath(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	_, err = os.Lstat(path)
	switch {
	case err != nil:
	case req.Msg.GetRecursive():
		err = os.RemoveAll(path)
	default:
		err = os.Remove(path)
	}
	if err != nil {
		return nil, fileFault(path, err)
	}
	return connect.NewResponse(&agentv1.RemoveFileResponse{}), nil
}
