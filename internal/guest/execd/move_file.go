package execd

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// MoveFile moves a file or a folder to a path that does not exist yet.
func (s *Server) MoveFile(_ context.Context, req *connect.Request[agentv1.MoveFileRequest]) (*connect.Response[agentv1.MoveFileResponse], error) {
	from, err := s.ownPath(req.Msg.GetFrom())
	if err != nil {
		return nil, err
	}
	to, err := s.path(req.Msg.GetTo())
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(from); err != nil {
		return nil, fileFault(from, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return nil, fileFault(to, err)
	}
	if err := moveFile(from, to); err != nil {
		return nil, fileFault(to, err)
	}
	return connect.NewResponse(&agentv1.MoveFileResponse{}), nil
}

// ownPath is like [Server.path], for files that may be moved or removed. It
// refuses the workspace, the home folder, and the folders that contain them.
func (s *Server) ownPath(given string) (string, error) {
	path, err := s.path(given)
	if err != nil {
		return "", err
	}
	for _, kept := range []string{s.workspace, s.home, "/"} {
		if kept != "" && isInside(path, filepath.Clean(kept)) {
			return "", fault.Invalid("%s cannot be moved or removed: the agent works there", path).At("path")
		}
	}
	return path, nil
}

// isInside reports whether path is folder or is below it.
func isInside(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}
