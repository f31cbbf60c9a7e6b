package loop

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"aloft/internal/conversation"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// mcpHook is a call of a tool of a server, as hooks see it.
type mcpHook struct {
	mcpArgs
	at map[string]any // its url or command
}

// hookOfMCP is nil for what is no call of a tool of a server.
func (t *talk) hookOfMCP(ctx context.Context, c conversation.ToolCall) *mcpHook {
	a, ok := mcpArgsOf(c)
	if !ok || !a.callsTool(c.Name) {
		return nil
	}
	h := &mcpHook{a, map[string]any{}}
	servers, err := t.servers(ctx)
	if err != nil {
		return h
	}
	if s, ok := mcp.Find(servers, a.Server); ok && s.Remote() {
		h.at["url"] = shownURL(s)
	} else if ok {
		h.at["command"] = s.Line()
	}
	return h
}

// shownURL is the URL of a server as hooks are shown it, which run in the machine:
// whole where the repository has it, and else without what may be a secret.
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

// fields are those of an event about the call.
func (h *mcpHook) fields() map[string]any {
	out := map[string]any{"tool_name": h.Tool, "tool_input": h.Arguments}
	for k, v := range h.at {
		out[k] = v
	}
	return out
}

// changed is the call with other arguments of the tool: a hook changes those, and
// neither the server nor the tool.
func (h *mcpHook) changed(args json.RawMessage) json.RawMessage {
	text, err := json.Marshal(map[string]any{"server": h.Server, "tool_name": h.Tool, "arguments": args})
	if err != nil {
		return nil
	}
	return text
}

// maxHookOutput bounds, in bytes, what a hook puts in the place of a result.
const maxHookOutput = 32 << 10

// replace puts what a hook says in the place of a tool's result.
func replace(r *tool.Result, output json.RawMessage) {
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
	r.Text, r.Images = cut(text, maxHookOutput), nil
	r.Output = outputOf(map[string]any{"content": []any{map[string]string{"text": r.Text}}, "isError": r.Error})
}
