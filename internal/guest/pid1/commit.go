package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Commit implements pod.v1's PodService.
func (s *podServer) Commit(ctx context.Context, req *connect.Request[podv1.CommitRequest]) (*connect.Response[podv1.CommitResponse], error) {
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	repo, err := s.hookedRepository(req.Msg.GetRepository(), req.Msg.GetSandboxPolicy())
	if err != nil {
		return nil, err
	}
	done, err := repo.Commit(ctx, req.Msg.GetMessage(), req.Msg.GetSkipHooks())
	code, words, err := refusal(err)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&podv1.CommitResponse{
		Commit: done.Commit, Made: done.Made, Note: done.Note, Code: code, Error: words,
	}), nil
}
