package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Status implements pod.v1's PodService.
func (s *podServer) Status(context.Context, *connect.Request[podv1.StatusRequest]) (*connect.Response[podv1.StatusResponse], error) {
	d := s.d
	d.mu.Lock()
	defer d.mu.Unlock()
	status := &podv1.StatusResponse{BootId: d.bootID, Booted: d.booted}
	restarts := d.before
	if d.exec != nil {
		state := d.exec.State()
		restarts += state.Restarts
		status.ExecDaemonRunning = state.Child != nil
	}
	status.ExecDaemonRestarts = int32(min(restarts, 1<<30))
	return connect.NewResponse(status), nil
}
