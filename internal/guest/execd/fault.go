package execd

import (
	"context"
	"errors"
	"log/slog"

	"connectrpc.com/connect"

	"aloft/internal/fault"
)

// codes maps kinds of faults to Connect error codes.
var codes = map[fault.Kind]connect.Code{
	fault.KindInternal:        connect.CodeInternal,
	fault.KindInvalid:         connect.CodeInvalidArgument,
	fault.KindUnauthenticated: connect.CodeUnauthenticated,
	fault.KindDenied:          connect.CodePermissionDenied,
	fault.KindNotFound:        connect.CodeNotFound,
	fault.KindConflict:        connect.CodeFailedPrecondition,
	fault.KindExhausted:       connect.CodeResourceExhausted,
	fault.KindUnavailable:     connect.CodeUnavailable,
	fault.KindGone:            connect.CodeNotFound,
	fault.KindNotImplemented:  connect.CodeUnimplemented,
}

// faults converts errors to responses: it sends the kind and the message, and
// logs the cause.
type faults struct{ log *slog.Logger }

// WrapUnary implements [connect.Interceptor].
func (f faults) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		res, err := next(ctx, req)
		if err != nil {
			return nil, f.answer(ctx, req.Spec().Procedure, err)
		}
		return res, nil
	}
}

// WrapStreamingClient implements [connect.Interceptor]; there is no client here.
func (faults) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (f faults) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		if err := next(ctx, conn); err != nil {
			return f.answer(ctx, conn.Spec().Procedure, err)
		}
		return nil
	}
}

func (f faults) answer(ctx context.Context, procedure string, err error) error {
	if _, ok := errors.AsType[*connect.Error](err); ok {
		return err // an error of Connect itself, such as an unknown RPC or a message that is too long
	}
	switch ended := ctx.Err(); {
	case errors.Is(ended, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.Cause(ctx))
	case ended != nil:
		return connect.NewError(connect.CodeCanceled, context.Cause(ctx))
	}
	what := fault.Of(err)
	level := slog.LevelDebug
	if what.Kind == fault.KindInternal {
		level = slog.LevelError
	}
	f.log.Log(ctx, level, "request failed", "rpc", procedure, "error", err)
	return connect.NewError(codes[what.Kind], &fault.Error{Message: what.Message, Advice: what.Advice})
}
