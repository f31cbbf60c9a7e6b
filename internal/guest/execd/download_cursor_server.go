package execd

import (
	"context"
	"regexp"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

var buildForm = regexp.MustCompile(`^[0-9A-Za-z._-]{0,64}$`)

// DownloadCursorServer finds the editor's server in the machine. If there is
// none, the error says what to install in the image.
func (s *Server) DownloadCursorServer(_ context.Context, req *connect.Request[agentv1.DownloadCursorServerRequest]) (*connect.Response[agentv1.DownloadCursorServerResponse], error) {
	build := req.Msg.GetCommit()
	if !buildForm.MatchString(build) || build == "." || build == ".." {
		return nil, fault.Invalid("%.64q cannot be the name of a build", build).At("commit")
	}
	program, _, err := s.remote.Find(build)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.DownloadCursorServerResponse{Program: program}), nil
}
