package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"aloft/internal/guest/shell"
	"aloft/internal/wire/agentv1"
)

// WriteShellStdin writes to background commands of a session.
func WriteShellStdin(session *shell.Session) Tool {
	return Tool{Name: "WriteShellStdin", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, err := writeShellStdin(ctx, session, call.GetWriteShellStdinToolCall().GetArgs())
		result := &agentv1.WriteShellStdinResult{Result: &agentv1.WriteShellStdinResult_Success{Success: success}}
		text := written(success)
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.WriteShellStdinResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.WriteShellStdinToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_WriteShellStdinToolCall{WriteShellStdinToolCall: done}}, text, err)
	}}
}

func writeShellStdin(ctx context.Context, session *shell.Session, args *agentv1.WriteShellStdinArgs) (*agentv1.WriteShellStdinSuccess, error) {
	if args.GetInput() == "" && !args.GetClose() {
		return nil, errors.New("nothing to do: give text in input, or set close")
	}
	w, err := session.Input(ctx, int(args.GetPid()), args.GetInput(), args.GetClose())
	if err != nil {
		return nil, err
	}
	return &agentv1.WriteShellStdinSuccess{Pid: args.GetPid(), BytesWritten: int32(w.Bytes), Closed: w.Closed, Signals: w.Signals}, nil
}

func written(s *agentv1.WriteShellStdinSuccess) string {
	text := fmt.Sprintf("Wrote %s to process %d.", plural(int(s.GetBytesWritten()), "byte"), s.GetPid())
	if len(s.GetSignals()) > 0 {
		text += fmt.Sprintf(" Sent it %s.", strings.Join(s.GetSignals(), ", "))
	}
	if s.GetClosed() {
		text += " Its input is closed."
	}
	return text
}
