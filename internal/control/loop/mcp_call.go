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

// offer tells the model about the MCP servers if it lacks the current
// information: before the first reply of a run, when a server has started or
// its tools have changed, and when a compaction has removed the message.
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
	return slices.DeleteFunc(slices.Clone(all), func(s tool.Spec) bool { return s.Runner == tool.MCP })
}

// mcpRoute checks a call to an MCP server and chooses its runner. The machine
// calls its own servers, like any tool; the control plane calls remote servers.
// A model cannot gain access by naming a server or a tool: the server must be
// configured, and its tools allowed.
func (t *thread) mcpRoute(ctx context.Context, c agent.Call) (route, error) {
	server, why, err := t.offers.Check(ctx, t.rec.Snapshot(), c.ToolCall)
	if err != nil || why != "" {
		return route{why: why}, err
	}
	away := server.Name != "" && server.Remote()
	switch {
	case c.Name == offer.SignInTool && server.Remote():
		return route{run: func(ctx context.Context, c agent.Call) (outcome, error) { return t.signIn(ctx, c, server) }}, nil
	case c.Sent && away:
		return route{why: offer.LostAnswer}, nil
	case t.isLost(c):
		return route{why: tool.Lost}, nil
	case c.Name == offer.ListTool && server.Name == "":
		return route{reviewed: true, run: t.listAll}, nil
	case server.Remote():
		return route{reviewed: true, run: func(ctx context.Context, c agent.Call) (outcome, error) { return t.callRemote(ctx, c, server) }}, nil
	}
	return route{reviewed: true, run: t.send}, nil
}

// listAll lists the resources of all servers: those that the machine lists, and
// those of the remote servers.
func (t *thread) listAll(ctx context.Context, c agent.Call) (outcome, error) {
	out, err := t.send(ctx, c)
	if err == nil {
		t.offers.AddRemote(ctx, t.state(), &out.result)
	}
	return out, err
}

// callRemote runs a call to a remote server. The call is journaled before it is
// sent, and is never sent twice.
func (t *thread) callRemote(ctx context.Context, c agent.Call, server mcp.Server) (outcome, error) {
	if err := t.record(ctx, t.sentEvents(c, "")...); err != nil {
		return outcome{}, err
	}
	began := time.Now()
	result, err := t.offers.Ask(ctx, t.state(), c.ToolCall, server, t.machine)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return outcome{}, cause
		}
		f := fault.Of(err)
		result = tool.Failed("%s", strings.TrimSuffix(f.Message+". "+f.Advice, ". "))
		if f.Kind == fault.KindInternal {
			result = tool.Failed("the MCP server %s: %s", server.Name, mcp.Clean(err.Error(), 2000))
		}
	}
	return outcome{result: result, took: time.Since(began)}, nil
}
