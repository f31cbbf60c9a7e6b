package offer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// args holds the arguments of any of the four MCP tools.
type args struct {
	Server       string          `json:"server"`
	Tool         string          `json:"tool_name"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	URI          string          `json:"uri"`
	DownloadPath string          `json:"downloadPath"`
}

func argsOf(c conversation.ToolCall) (args, bool) {
	var a args
	if spec, _ := tool.Lookup(c.Name); spec.Runner != tool.MCP || json.Unmarshal(c.Args, &a) != nil {
		return a, false
	}
	if trimmed := bytes.TrimSpace(a.Arguments); len(trimmed) == 0 || string(trimmed) == "null" {
		a.Arguments = json.RawMessage("{}")
	}
	return a, true
}

// callsTool reports whether the call invokes a tool of a server, rather than
// listing something.
func (a args) callsTool(name string) bool { return name == CallTool && a.Tool != "" }

// LostAnswer is the result of a call to a remote server whose response was
// lost.
const LostAnswer = "the Aloft server restarted while this call was running. The call may have had some or all of its effect, and its response is lost. It is not sent again: first check whether it had an effect."

// Check finds the server of a call. If there is no such server or tool, why is
// a message about it for the model.
func (o *Offers) Check(ctx context.Context, s *agent.State, c conversation.ToolCall) (server mcp.Server, why string, err error) {
	a, ok := argsOf(c)
	if !ok {
		return server, "the arguments do not match the schema", nil
	}
	servers, err := o.Servers(ctx, s)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return server, "", cause
		}
		return server, fault.Of(err).Message, nil
	}
	if a.Server == "" && c.Name == ListTool {
		return server, "", nil
	}
	server, ok = mcp.Find(servers, a.Server)
	if !ok {
		var names []string
		for _, s := range servers {
			names = append(names, s.Name)
		}
		return server, fmt.Sprintf("there is no MCP server %q; there are: %s", mcp.Clean(a.Server, 80), cmp.Or(strings.Join(names, ", "), "none")), nil
	}
	if !a.callsTool(c.Name) {
		return server, "", nil
	}
	if !server.Allows(a.Tool) {
		return server, fmt.Sprintf("the tool %s of %s cannot be called: it is not in mcpServerAllowlist in environment.json", mcp.Clean(a.Tool, 80), server.Name), nil
	}
	listing, err := o.listed(ctx, s, server, true)
	if err != nil {
		return server, "", err
	}
	if listing.State == mcp.Starting || !server.Remote() && listing.State == mcp.Failed {
		return server, "", nil // the machine checks the rest, and may start the server
	}
	if _, has := listing.Find(a.Tool); !has {
		if listing.State != mcp.Ready {
			return server, fmt.Sprintf("the MCP server %s cannot be used: %s", server.Name, cmp.Or(listing.Error, string(listing.State))), nil
		}
		return server, fmt.Sprintf("the MCP server %s has no tool %q. %s", server.Name, mcp.Clean(a.Tool, 80), listing.Describe()), nil
	}
	return server, "", nil
}

// Ask sends a call to a remote server that [Offers.Check] has found, and
// returns the result. The machine m is needed only to save a resource to a
// file.
func (o *Offers) Ask(ctx context.Context, s *agent.State, c conversation.ToolCall, server mcp.Server, m Writer) (tool.Result, error) {
	a, _ := argsOf(c) // Check has already parsed it
	switch {
	case c.Name == ListTool:
		resources, err := o.Of.Resources(ctx, s, server)
		if err != nil {
			return tool.Result{}, err
		}
		return Success(mcp.TellResources(resources), map[string]any{"resources": resources}), nil
	case c.Name == FetchTool:
		contents, err := o.Of.Read(ctx, s, server, a.URI)
		if err != nil {
			return tool.Result{}, err
		}
		if a.DownloadPath != "" {
			return download(ctx, m, c.ID, contents, a)
		}
		r := mcp.Result{Content: contents}.Tool()
		r.Output = outputOf(map[string]any{"uri": a.URI, "text": r.Text})
		return r, nil
	case !a.callsTool(c.Name):
		listing, err := o.listed(ctx, s, server, true)
		if err != nil {
			return tool.Result{}, err
		}
		text := listing.Describe()
		return Success(text, map[string]any{"content": []any{map[string]string{"text": text}}}), nil
	}
	answer, err := o.Of.Call(ctx, s, server, a.Tool, a.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	r := answer.Tool()
	r.Output = outputOf(map[string]any{"content": []any{map[string]string{"text": r.Text}}, "isError": r.Error})
	return r, nil
}

// Forget removes a remote server's listing from the cache.
func (o *Offers) Forget(server mcp.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.remote, server.Name)
}

// Success returns the result of a call that has succeeded.
func Success(text string, output map[string]any) tool.Result {
	return tool.Result{Text: text, Output: outputOf(output)}
}

func outputOf(output map[string]any) json.RawMessage {
	text, err := json.Marshal(map[string]any{"success": output})
	if err != nil {
		return nil
	}
	return text
}

// DownloadSuffix is appended to the id of a call, to form the id of the call
// that writes its download.
const DownloadSuffix = "_write"

// download writes a remote server's response to a file in the machine. It uses
// the machine's Write tool, with its rules.
func download(ctx context.Context, m Writer, callID string, contents []mcp.Content, a args) (tool.Result, error) {
	var text strings.Builder
	for _, piece := range contents {
		if piece.Data != nil {
			return tool.Failed("the resource is not text; only text resources of a remote server can be saved"), nil
		}
		text.WriteString(piece.Text)
	}
	inside := strings.TrimPrefix(a.DownloadPath, agent.Workspace+"/")
	if strings.HasPrefix(inside, "/") || slices.Contains(strings.Split(inside, "/"), "..") {
		return tool.Failed("%s is not inside the workspace %s: give a path there", a.DownloadPath, agent.Workspace), nil
	}
	args, err := json.Marshal(map[string]string{"path": a.DownloadPath, "contents": text.String()})
	if err != nil {
		return tool.Result{}, err
	}
	write := conversation.ToolCall{ID: callID + DownloadSuffix, Name: "Write", Args: args}
	r, _, err := m.Call(ctx, write, func(remote.Delta) {})
	if err != nil {
		return tool.Result{}, err
	}
	if err := m.Ack(ctx, write.ID); err != nil {
		return tool.Result{}, err
	}
	if r.Error {
		return r, nil
	}
	return Success(fmt.Sprintf("%d bytes are in %s", text.Len(), a.DownloadPath), map[string]any{"uri": a.URI, "savedTo": a.DownloadPath, "sizeBytes": text.Len()}), nil
}

// AddRemote adds the remote servers' resources to those of the machine's
// servers.
func (o *Offers) AddRemote(ctx context.Context, s *agent.State, r *tool.Result) {
	servers, err := o.Servers(ctx, s)
	if err != nil {
		return
	}
	var all []mcp.Resource
	for _, server := range servers {
		if !server.Remote() {
			continue
		}
		found, err := o.Of.Resources(ctx, s, server)
		if err != nil {
			r.Text += fmt.Sprintf("\n%s: %s", server.Name, fault.Of(err).Message)
		}
		all = append(all, found...)
	}
	if len(all) > 0 {
		r.Text += "\n" + mcp.TellResources(all)
	}
}
