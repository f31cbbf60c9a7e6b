package pid1

import (
	"context"
	"path/filepath"

	"connectrpc.com/connect"

	"aloft/internal/guest/checkout"
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
	done, err := repo.Push(ctx, req.Msg.GetBranch(), req.Msg.GetSkipHooks())
	code, words, err := refusal(err)
	if err != nil {
		return nil, err
	}
	answer := &podv1.PushResponse{Commit: done.Commit, Note: done.Note, Code: code, Error: words}
	switch code {
	case "", checkout.CodeHookFailed, checkout.CodeNoCommit:
	case checkout.CodeSecretInPush: // what must not be pushed must not leave the machine otherwise
	default:
		answer.Bundle = s.keepUnpushed(ctx, repo)
	}
	return connect.NewResponse(answer), nil
}

// keepUnpushed keeps the commits that could not be pushed as a git bundle among
// the artifacts, and returns its name there; "" where that failed too.
func (s *podServer) keepUnpushed(ctx context.Context, repo *checkout.Repository) string {
	if err := s.d.artifactsFolder(); err != nil {
		s.d.cfg.Log.Warn("unpushed commits are not kept", "err", err)
		return ""
	}
	name := "unpushed-" + filepath.Base(repo.Path) + ".bundle"
	kept, err := repo.Bundle(ctx, filepath.Join(s.d.cfg.Artifacts, name))
	if err != nil {
		s.d.cfg.Log.Warn("unpushed commits are not kept", "err", err)
	}
	if !kept {
		return ""
	}
	return name
}
