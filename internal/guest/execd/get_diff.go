package execd

import (
	"bytes"
	"context"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/guest/changes"
	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

// maxDiff is the longest diff that GetDiff returns, in bytes.
const maxDiff = 8 << 20

// GetDiff returns the workspace's diff against a commit. It leaves out files
// that .cursorignore hides, and truncates a long diff after a complete line.
func (s *Server) GetDiff(ctx context.Context, req *connect.Request[agentv1.GetDiffRequest]) (*connect.Response[agentv1.GetDiffResponse], error) {
	diff := &changes.Head{Limit: maxDiff}
	if err := changes.Diff(ctx, s.workspace, req.Msg.GetBase(), diff, file.NewUnseen(s.workspace)); err != nil {
		return nil, err
	}
	if diff.More {
		diff.Text = diff.Text[:bytes.LastIndexByte(diff.Text, '\n')+1]
	}
	return connect.NewResponse(&agentv1.GetDiffResponse{
		Diff: strings.ToValidUTF8(string(diff.Text), "\uFFFD"), Truncated: diff.More,
	}), nil
}
