package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Diff implements pod.v1's PodService.
func (s *podServer) Diff(ctx context.Context, req *connect.Request[podv1.DiffRequest]) (*connect.Response[podv1.DiffResponse], error) {
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	repo, err := s.repository(req.Msg.GetRepository())
	if err != nil {
		return nil, err
	}
	diff, truncated, err := repo.Diff(ctx, req.Msg.GetBase(), s.d.scratch())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&podv1.DiffResponse{Diff: diff, Truncated: truncated}), nil
}
