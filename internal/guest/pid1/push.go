package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Push is pod.v1's.
func (s *podServer) Push(ctx context.Context, req *connect.Request[podv1.PushRequest]) (*connect.Response[podv1.PushResponse], error) {
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	repo, err := s.repository(req.Msg.GetRepository())
	if err != nil {
		return nil, err
	}
	commit, err := repo.Push(ctx, req.Msg.GetBranch())
	code, words, err := refusal(err)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&podv1.PushResponse{Commit: commit, Code: code, Error: words}), nil
}
