package tool

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"aloft/internal/guest/shell"
	"aloft/internal/wire/agentv1"
)

// maxAwaited limits how many commands one call can wait for.
const maxAwaited = 50

// Await waits for background commands of a session.
func Await(session *shell.Session) Tool {
	return Tool{Name: "Await", Bounded: true, Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := await(ctx, session, call.GetAwaitToolCall().GetArgs())
		result := &agentv1.AwaitResult{Result: &agentv1.AwaitResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.AwaitResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.AwaitToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_AwaitToolCall{AwaitToolCall: done}}, text, err)
	}}
}

// sleep waits for the time d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func await(ctx context.Context, session *shell.Session, args *agentv1.AwaitArgs) (*agentv1.AwaitSuccess, string, error) {
	if args == nil {
		return nil, "", errNoArguments
	}
	w := shell.Wait{Any: args.GetAny(), Timeout: defaultTimeout}
	if args.Timeout != nil {
		if args.GetTimeout() < 0 {
			return nil, "", fmt.Errorf("timeout is %d: give milliseconds from 0 to %d", args.GetTimeout(), maxTimeout.Milliseconds())
		}
		w.Timeout = min(maxTimeout, time.Duration(args.GetTimeout())*time.Millisecond)
	}
	if args.GetPattern() != "" {
		pattern, err := regexp.Compile(args.GetPattern())
		if err != nil {
			return nil, "", fmt.Errorf("pattern %q: %w; escape special characters with a backslash to match them literally", args.GetPattern(), err)
		}
		w.Pattern = pattern
	}
	if len(args.GetPids()) > maxAwaited {
		return nil, "", fmt.Errorf("pids names %d commands; one call can wait for at most %d", len(args.GetPids()), maxAwaited)
	}
	for _, pid := range args.GetPids() {
		w.PIDs = append(w.PIDs, int(pid))
	}
	began := time.Now()
	all, late, err := session.Await(ctx, w)
	if errors.Is(err, shell.ErrIdle) && args.GetTimeout() > 0 && w.Pattern == nil { // a timer
		late, err = true, sleep(ctx, w.Timeout)
	}
	if err != nil {
		return nil, "", err
	}
	success := &agentv1.AwaitSuccess{TimedOut: late, WaitedMs: int32(time.Since(began).Milliseconds())}
	var b strings.Builder
	for _, a := range all {
		success.Commands = append(success.Commands, &agentv1.AwaitedCommand{Command: jobMessage(a.Job), Matched: a.Matched, Output: a.Output})
		fmt.Fprintf(&b, "[process %d %s", a.PID, jobState(a.Job))
		if w.Pattern != nil && a.Matched == "" {
			b.WriteString("; no new line matches the pattern")
		}
		b.WriteString("]\n" + a.Output)
		if a.Output != "" && !strings.HasSuffix(a.Output, "\n") {
			b.WriteByte('\n')
		}
	}
	if late {
		fmt.Fprintf(&b, "[timed out after %d ms]\n", w.Timeout.Milliseconds())
	}
	return success, b.String(), nil
}
