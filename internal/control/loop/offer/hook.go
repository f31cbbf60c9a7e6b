package offer

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/loop/compact"
	"aloft/internal/conversation"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// Hook describes a call of an MCP tool in the form that is passed to hooks.
type Hook struct {
	Args    args
	address map[string]any // the server's url or command
}

// Hook returns the call as hooks see it, or nil if the call does not invoke a tool of a server.
func (o *Offers) Hook(ctx context.Context, s *agent.State, c conversation.ToolCall) *Hook {
	a, ok := argsOf(c)
	if !ok || !a.callsTool(c.Name) {
		return nil
	}
	h := &Hook{a, map[string]any{}}
	servers, err := o.Servers(ctx, s)
	if err != nil {
		return h
	}
	if server, ok := mcp.Find(servers, a.Server); ok && server.Remote() {
		h.address["url"] = shownURL(server)
	} else if ok {
		h.address["command"] = server.Line()
	}
	return h
}

// shownURL returns the URL of a server for hooks, which run in the machine. A
// URL from the repository is returned unchanged; from other URLs the parts that
// may be secret are removed.
func shownURL(s mcp.Server) string {
	if s.Source == mcp.Project {
		return s.URL
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
}

// Fields returns the fields of a hook event about the call.
func (h *Hook) Fields() map[string]any {
	out := map[string]any{"tool_name": h.Args.Tool, "tool_input": h.Args.Arguments}
	for k, v := range h.address {
		out[k] = v
	}
	return out
}

// Changed returns the call with the tool's arguments replaced. A hook can
// change the arguments, but neither the server nor the tool.
func (h *Hook) Changed(args json.RawMessage) json.RawMessage {
	text, err := json.Marshal(map[string]any{"server": h.Args.Server, "tool_name": h.Args.Tool, "arguments": args})
	if err != nil {
		return nil
	}
	return text
}

// maxHookOutput is the maximum length in bytes of a result that a hook
// substitutes.
const maxHookOutput = 32 << 10

// Replace replaces a tool's result with a hook's output.
func Replace(r *tool.Result, output json.RawMessage) {
	text := string(output)
	var s string
	var shaped struct{ Content []struct{ Text string } }
	if json.Unmarshal(output, &s) == nil {
		text = s
	} else if json.Unmarshal(output, &shaped) == nil && len(shaped.Content) > 0 {
		var parts []string
		for _, c := range shaped.Content {
			parts = append(parts, c.Text)
		}
		text = strings.Join(parts, "\n")
	}
	r.Text, r.Images = compact.Cut(text, maxHookOutput), nil
	r.Output = outputOf(map[string]any{"content": []any{map[string]string{"text": r.Text}}, "isError": r.Error})
}
