package tool

import (
	"context"
	"fmt"
	"os"

	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

// Delete removes one file.
func Delete(ws Workspace) Tool {
	return Tool{Name: "Delete", Run: func(_ context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, err := remove(ws, call.GetDeleteToolCall().GetArgs())
		result := &agentv1.DeleteResult{Result: &agentv1.DeleteResult_Success{Success: success}}
		text := fmt.Sprintf("Deleted %s (%s).", success.GetPath(), plural(int(success.GetSizeBytes()), "byte"))
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.DeleteResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.DeleteToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_DeleteToolCall{DeleteToolCall: done}}, text, err)
	}}
}

func remove(ws Workspace, args *agentv1.DeleteArgs) (*agentv1.DeleteSuccess, error) {
	path, err := ws.path(args.GetPath())
	if err != nil {
		return nil, err
	}
	t, err := ws.target(path, args.GetGuarded(), false) // a symbolic link is removed, not its target
	if err != nil {
		return nil, err
	}
	defer t.Close()
	info, err := os.Lstat(t.At)
	if err != nil {
		return nil, file.Explain(path, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder, which this tool does not delete: use rm -r in Shell if you mean it", path)
	}
	if err := os.Remove(t.At); err != nil {
		return nil, file.Explain(path, err)
	}
	ws.Seen.Forget(t.Path)
	return &agentv1.DeleteSuccess{Path: valid(path), SizeBytes: float64(info.Size())}, nil
}
