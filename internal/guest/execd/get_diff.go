package execd

import (
	"bytes"
	"context"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// maxDiff bounds, in bytes, the diff that GetDiff returns.
const maxDiff = 8 << 20

// GetDiff returns the workspace's difference from a commit, without the files that
// .cursorignore hides and cut after a whole line if it is too long.
func (s *Server) GetDiff(ctx context.Context, req *connect.Request[agentv1.GetDiffRequest]) (*connect.Response[agentv1.GetDiffResponse], error) {
	diff := &head{most: maxDiff}
	if err := diffWorkspace(ctx, s.workspace, req.Msg.GetBase(), diff, tool.NewUnseen(s.workspace)); err != nil {
		return nil, err
	}
	if diff.more {
		diff.kept = diff.kept[:bytes.LastIndexByte(diff.kept, '\n')+1]
	}
	return connect.NewResponse(&agentv1.GetDiffResponse{
		Diff: strings.ToValidUTF8(string(diff.kept), "\uFFFD"), Truncated: diff.more,
	}), nil
}
