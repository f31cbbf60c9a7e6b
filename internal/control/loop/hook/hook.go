// Package hook writes the events that the project's hooks receive about calls,
// and reads the hooks' answers.
package hook

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/offer"
	"aloft/internal/conversation"
	"aloft/internal/hook"
	"aloft/internal/tool"
)

// tools maps tools to the names that hooks use for them, where the names
// differ.
var tools = map[string]string{"StrReplace": "Write", "EditNotebook": "Write", "WebFetch": "Fetch"}

// named returns the name that hooks use for a tool.
func named(name string) string {
	if other, ok := tools[name]; ok {
		return other
	}
	return name
}

// Subject returns the name of a call's tool as hooks see it, and the call's input.
// server is the called tool of an MCP server, or nil.
func Subject(c conversation.ToolCall, server *offer.Hook) (name string, input json.RawMessage) {
	if server != nil {
		return "MCP:" + server.Args.Tool, server.Args.Arguments
	}
	return named(c.Name), c.Args
}

// Workspace is the working directory that hooks see for calls other than shell
// calls.
const Workspace = "/workspace"

// After returns the events that follow a call. r is the call's result, and
// server is as in [Subject].
func After(c agent.Call, server *offer.Hook, r tool.Result, took time.Duration) []hook.Input {
	name, input := Subject(c.ToolCall, server)
	fields := map[string]any{
		"tool_name": name, "tool_input": input, "tool_use_id": c.ID, "cwd": Workspace, "duration": took.Milliseconds(),
	}
	var events []hook.Input
	refused := c.Judged != nil && c.Judged.Treatment == agent.CallRefused
	if r.Error {
		fields["error_message"], fields["failure_type"] = r.Text, failureType(r.Why, refused)
		events = append(events, hook.Input{Event: hook.PostToolUseFailure, Subject: name, Fields: fields})
	} else {
		fields["tool_output"] = r.Text
		events = append(events, hook.Input{Event: hook.PostToolUse, Subject: name, Fields: fields})
	}
	var args struct {
		Command, Path, Contents string
		Notebook                string `json:"target_notebook"`
		Old                     string `json:"old_string"`
		New                     string `json:"new_string"`
	}
	_ = json.Unmarshal(c.Args, &args) // arguments that are not an object give an empty map
	switch {
	case refused: // the call did not run
	case c.Name == "Shell":
		events = append(events, hook.Input{Event: hook.AfterShellExecution, Subject: args.Command, Fields: map[string]any{
			"command": args.Command, "output": r.Text, "duration": took.Milliseconds(), "sandbox": c.Judged != nil && c.Judged.Treatment == agent.CallSandboxed,
		}})
	case server != nil:
		outcome := server.Fields()
		outcome["result_json"], outcome["duration"] = string(r.Output), took.Milliseconds()
		events = append(events, hook.Input{Event: hook.AfterMCPExecution, Subject: server.Args.Tool, Fields: outcome})
	case !r.Error && name == "Write":
		edit := map[string]string{"old_string": args.Old, "new_string": args.New + args.Contents}
		events = append(events, hook.Input{Event: hook.AfterFileEdit, Subject: name, Fields: map[string]any{"file_path": args.Path + args.Notebook, "edits": []any{edit}}})
	}
	return events
}

// failureType returns the kind of a failure as hooks name it.
func failureType(why tool.Failure, refused bool) string {
	if refused {
		why = tool.PermissionDenied
	}
	return cmp.Or(string(why), "error")
}

// Attachments returns the images of the last prompt in a conversation.
func Attachments(messages []conversation.Message) []any {
	all := []any{}
	for i := len(messages) - 1; i >= 0 && messages[i].Role == conversation.User; i-- {
		var of []any
		for _, b := range messages[i].Blocks {
			if b.Image != nil {
				of = append(of, map[string]any{"type": "image", "media_type": b.Image.MediaType, "size_bytes": len(b.Image.Data)})
			}
		}
		if len(of) > 0 {
			all = append(of, all...)
		}
	}
	return all
}

// Refusal returns the text that the model gets for a call that a hook denied.
func Refusal(outcome hook.Outcome) string {
	words := strings.TrimSpace(outcome.AgentMessage)
	if words == "" {
		words = strings.TrimSpace(outcome.UserMessage)
	}
	if words == "" {
		return "Not run: a project hook denied it."
	}
	return "Not run: a project hook denied it: " + words
}
