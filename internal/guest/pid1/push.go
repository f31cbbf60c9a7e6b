package pid1

import (
	"context"
	"path/filepath"

	"connectrpc.com/connect"

	"aloft/internal/guest/checkout"
	"aloft/internal/wire/podv1"
)

// Push implements pod.v1's PodService.
func (s *podServer) Push(ctx context.Context, req *connect.Request[podv1.PushRequest]) (*connect.Response[podv1.PushResponse], error) {
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	repo, err := s.hookedRepository(req.Msg.GetRepository(), req.Msg.GetSandboxPolicy())
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
	case checkout.CodeSecretInPush: // a rejected secret must not leave the machine in a bundle either
	default:
		answer.Bundle = s.keepUnpushed(ctx, repo)
	}
	return connect.NewResponse(answer), nil
}

// keepUnpushed saves commits that could not be pushed as a git bundle in the
// artifacts folder, and returns its name. It returns "" if that fails too.
func (s *podServer) keepUnpushed(ctx context.Context, repo *checkout.Repository) string {
	if err := s.d.artifactsFolder(); err != nil {
		s.d.cfg.Log.Warn("cannot save unpushed commits", "err", err)
		return ""
	}
	name := "unpushed-" + filepath.Base(repo.Path) + ".bundle"
	kept, err := repo.Bundle(ctx, filepath.Join(s.d.cfg.Artifacts, name))
	if err != nil {
		s.d.cfg.Log.Warn("cannot save unpushed commits", "err", err)
	}
	if !kept {
		return ""
	}
	return name
}
