package execd

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/wire/agentv1"
)

// ListArtifacts lists the files that should outlive the machine.
func (s *Server) ListArtifacts(ctx context.Context, _ *connect.Request[agentv1.ListArtifactsRequest]) (*connect.Response[agentv1.ListArtifactsResponse], error) {
	list, more, err := s.artifacts.list(ctx)
	if err != nil {
		return nil, err
	}
	res := &agentv1.ListArtifactsResponse{Truncated: more}
	for _, a := range list {
		res.Artifacts = append(res.Artifacts, &agentv1.Artifact{
			Name: a.name, SizeBytes: a.size, ModifiedAt: timestamppb.New(a.modified), Sha256: a.sha256,
		})
	}
	return connect.NewResponse(res), nil
}
