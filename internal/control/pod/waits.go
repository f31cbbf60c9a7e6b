package pod

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/podv1/podv1connect"
)

// waits says how long pod-daemon may take.
type waits struct {
	answer time.Duration // to answer one request
	git    time.Duration // for a commit or a push, which run the project's hooks
	boot   time.Duration // for all steps together, the clone of a large repository among them
	grace  time.Duration // to end a command whose time is over
}

// standard is what connections have, except those of tests.
var standard = waits{answer: 2 * time.Minute, git: time.Hour, boot: 2 * time.Hour, grace: time.Minute}

// errSilentPod is why a request to pod-daemon is given up.
var errSilentPod = fault.Unavailable("the machine does not answer").Named("machine_stuck").
	Hint("the machine may be out of memory or processes: look at the last tool calls, and send a follow-up")

// patient gives up requests that pod-daemon does not answer: its connection is
// alive, and so nothing else would end them.
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

// overdue reports whether a request failed because its time was over, and not that
// of ctx. The machine is told the time, and may say so first.
func overdue(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || connect.CodeOf(err) == connect.CodeDeadlineExceeded)
}

// WrapStreamingClient implements [connect.Interceptor]; streams have limits of
// their own.
func (patient) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor]; nothing is served here.
func (patient) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}
