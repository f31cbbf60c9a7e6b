package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/offer"
	"aloft/internal/control/loop/remote"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// offer tells the model about the MCP servers if it does not know: before the
// first reply of a run, when a server has started or its tools have changed,
// and when a compaction has removed the message.
func (t *thread) offer(ctx context.Context) error {
	if t.Tools.MCP == nil {
		return nil
	}
	all, err := t.offers.Listings(ctx, t.rec.Snapshot(), t.machine)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if errors.Is(err, remote.ErrLost) {
			return err
		}
		t.Logger.Warn("cannot list the MCP servers", "error", err)
		return nil
	}
	was := t.state().Servers
	if len(all) == 0 && was == "" {
		return nil
	}
	if text := mcp.Tell(all); text != was {
		return t.record(ctx, &agent.Notice{Text: text, Code: agent.CodeMCP})
	}
	return nil
}

// offered returns the tools that a model may call. Without MCP servers it
// leaves out the MCP tools.
func (t *thread) offered(s *agent.State) []tool.Spec {
	all := t.workable(s)
	if t.Tools.MCP != nil && s.Servers != "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s tool.Spec) bool { return offer.IsTool(s.Name) })
}

// mcpCall runs a call to an MCP server. A server in the machine is called
// there, like any tool; a remote server is called from here. That the model
// names a server or a tool grants nothing: the server must be configured, and
// its tools allowed.
func (t *thread) mcpCall(ctx context.Context, c agent.Call) error {
	server, why, err := t.offers.Check(ctx, t.rec.Snapshot(), c.ToolCall)
	if err != nil {
		return err
	}
	if why != "" {
		return t.done(ctx, c.ID, tool.Failed("%s", why), 0)
	}
	if c.Name == offer.SignInTool && server.Remote() {
		return t.signIn(ctx, c, server)
	}
	if c.Sent {
		if server.Name != "" && server.Remote() {
			return t.done(ctx, c.ID, tool.Failed("%s", offer.LostAnswer), 0)
		}
		if c.BootID != t.machine.BootID() {
			return t.done(ctx, c.ID, tool.Failed("%s", tool.Lost), 0)
		}
	}
	c, admitted, err := t.admit(ctx, c)
	if err != nil || !admitted {
		return err
	}
	// A hook may have changed the server or the tool.
	if server, why, err = t.offers.Check(ctx, t.rec.Snapshot(), c.ToolCall); err != nil {
		return err
	}
	switch {
	case why != "":
		return t.done(ctx, c.ID, tool.Failed("%s", why), 0, t.unjournaled(c)...)
	case c.Name == offer.ListTool && server.Name == "":
		return t.send(ctx, c, func(r *tool.Result) { t.offers.AddRemote(ctx, t.state(), r) })
	case server.Remote():
		return t.remoteCall(ctx, c, server)
	}
	return t.send(ctx, c, nil)
}

// remoteCall runs a call to a remote server. The call is journaled before it is
// sent, and never sent twice.
func (t *thread) remoteCall(ctx context.Context, c agent.Call, server mcp.Server) error {
	if err := t.record(ctx, t.sent(c, "")...); err != nil {
		return err
	}
	start := time.Now()
	result, err := t.offers.Ask(ctx, t.state(), c.ToolCall, server, t.machine)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		f := fault.Of(err)
		result = tool.Failed("%s", strings.TrimSuffix(f.Message+". "+f.Advice, ". "))
		if f.Kind == fault.KindInternal {
			result = tool.Failed("the MCP server %s: %s", server.Name, mcp.Clean(err.Error(), 2000))
		}
	}
	took := time.Since(start)
	if err := t.after(ctx, c, &result, took); err != nil && !errors.Is(err, remote.ErrLost) {
		return err
	}
	return t.done(ctx, c.ID, result, took)
}
