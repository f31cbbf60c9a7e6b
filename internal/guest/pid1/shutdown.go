package pid1

import (
	"context"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1"
)

// Shutdown implements pod.v1's PodService. It replies before the machine stops.
func (s *podServer) Shutdown(context.Context, *connect.Request[podv1.ShutdownRequest]) (*connect.Response[podv1.ShutdownResponse], error) {
	s.d.stop(errShutdown)
	return connect.NewResponse(&podv1.ShutdownResponse{}), nil
}
