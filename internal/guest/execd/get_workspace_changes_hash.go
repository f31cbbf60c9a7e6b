package execd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"connectrpc.com/connect"

	"aloft/internal/guest/changes"
	"aloft/internal/wire/agentv1"
)

// GetWorkspaceChangesHash returns the SHA-256, in hex, of the workspace's diff
// against HEAD. The diff has a binary file's object name, so changes to it
// count too.
func (s *Server) GetWorkspaceChangesHash(ctx context.Context, _ *connect.Request[agentv1.GetWorkspaceChangesHashRequest]) (*connect.Response[agentv1.GetWorkspaceChangesHashResponse], error) {
	sum := sha256.New()
	if err := changes.Diff(ctx, s.workspace, "", sum, nil); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.GetWorkspaceChangesHashResponse{Hash: hex.EncodeToString(sum.Sum(nil))}), nil
}
