package execd

import (
	"context"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// LoadLater returns a tool that is initialized on demand. Each call asks get for the
// real tool; get may block, and the call can be aborted meanwhile. An error of
// get becomes the call's error.
func LoadLater(name string, get func() (tool.Tool, error)) tool.Tool {
	type ready struct {
		tool tool.Tool
		err  error
	}
	return tool.Tool{Name: name, Run: func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		got := make(chan ready, 1)
		go func() {
			t, err := get()
			got <- ready{t, err}
		}()
		var r ready
		select {
		case r = <-got:
		case <-ctx.Done():
			r.err = context.Cause(ctx)
		}
		if r.err != nil {
			message := "the tool " + name + " is not ready: " + r.err.Error()
			return tool.Outcome{Call: failed(call, message), Text: message, Error: true}
		}
		return r.tool.Run(ctx, call, emit)
	}}
}
