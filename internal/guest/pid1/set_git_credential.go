package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// SetGitCredential implements pod.v1's PodService.
func (s *podServer) SetGitCredential(ctx context.Context, req *connect.Request[podv1.SetGitCredentialRequest]) (*connect.Response[podv1.SetGitCredentialResponse], error) {
	giveBack, err := s.d.take(ctx)
	if err != nil {
		return nil, err
	}
	defer giveBack()
	if _, err := s.repository(0); err != nil {
		return nil, err
	}
	if err := s.d.writeCredential(req.Msg.GetCredential()); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	s.d.mu.Lock()
	for _, repo := range s.d.repos {
		repo.Secret = req.Msg.GetCredential()
	}
	s.d.mu.Unlock()
	return connect.NewResponse(&podv1.SetGitCredentialResponse{}), nil
}
