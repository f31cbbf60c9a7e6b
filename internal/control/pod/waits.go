package pod

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/podv1/podv1connect"
)

// waits holds the timeouts for pod-daemon.
type waits struct {
	answer time.Duration // timeout of a simple request
	git    time.Duration // timeout of a commit or a push, which run the project's hooks
	boot   time.Duration // timeout of all boot steps together, including the clone of a large repository
	grace  time.Duration // time for killing a command after its time limit
}

// standard holds the timeouts of all connections outside of tests.
var standard = waits{answer: 2 * time.Minute, git: time.Hour, boot: 2 * time.Hour, grace: time.Minute}

// errSilentPod is the error of a request to pod-daemon that times out.
var errSilentPod = fault.Unavailable("the machine does not answer").Named("machine_stuck").
	Hint("the machine may be out of memory or processes: check the last tool calls, then send a follow-up")

// patient sets the timeouts of requests to pod-daemon. Without a timeout, a
// request to a hanging pod-daemon would never end, since the connection stays
// alive.
type patient struct{ waits }

// WrapUnary implements [connect.Interceptor].
func (p patient) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		limit := p.answer
		switch req.Spec().Procedure {
		case podv1connect.PodServiceCommitProcedure, podv1connect.PodServicePushProcedure:
			limit = p.git
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		res, err := next(limited, req)
		if overdue(ctx, err) {
			return nil, errSilentPod
		}
		return res, err
	}
}

// overdue reports whether a request failed because of its own timeout and not
// that of ctx. The machine knows the timeout too, and may report it first.
func overdue(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded)
}

// WrapStreamingClient implements [connect.Interceptor]. It does nothing,
// because streams have their own timeouts.
func (patient) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor]. It does nothing,
// because this program is only a client.
func (patient) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
