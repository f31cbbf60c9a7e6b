package loop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/loop/remote"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/tool"
)

// The tools with which a model uses MCP servers. They are the same whatever the
// servers offer.
const (
	callMCP   = "CallMcpTool"
	listMCP   = "ListMcpResources"
	fetchMCP  = "FetchMcpResource"
	signInMCP = "McpAuth"
)

func isMCP(name string) bool {
	return slices.Contains([]string{callMCP, listMCP, fetchMCP, signInMCP}, name)
}

// offers holds what the loop knows about the MCP servers of a run.
type offers struct {
	mu      sync.Mutex
	known   bool
	servers []mcp.Server
	left    []mcp.LeftOut
	remote  map[string]mcp.Listing // remote servers by name
	here    []mcp.Listing          // servers in the machine, as last reported
	asked   bool                   // the machine was told which servers to run
}

// firstServerWait is how long a run waits for starting servers before it asks
// the model without them.
const firstServerWait = 10 * time.Second

// servers returns the servers that the agent can use in this run.
func (l *Loop) servers(ctx context.Context) ([]mcp.Server, error) {
	if l.Tools.MCP == nil {
		return nil, nil
	}
	l.offers.mu.Lock()
	defer l.offers.mu.Unlock()
	if l.offers.known {
		return l.offers.servers, nil
	}
	servers, left, err := l.Tools.MCP.ServersOf(ctx, l.rec.Snapshot())
	if err != nil {
		return nil, err
	}
	l.offers.known, l.offers.servers, l.offers.left, l.offers.remote = true, servers, left, map[string]mcp.Listing{}
	return servers, nil
}

// listed returns what the server offers, from a cache. If again is true, a
// remote server that could not be used is asked again.
func (l *Loop) listed(ctx context.Context, server mcp.Server, again bool) (mcp.Listing, error) {
	l.offers.mu.Lock()
	was, ok := l.offers.remote[server.Name]
	here := l.offers.here
	l.offers.mu.Unlock()
	if !server.Remote() {
		for _, listing := range here {
			if listing.Server == server.Name {
				return listing, nil
			}
		}
		return mcp.Listing{Server: server.Name, State: mcp.Starting}, nil
	}
	if ok && (!again || was.State == mcp.Ready) {
		return was, nil
	}
	listing, err := l.Tools.MCP.List(ctx, l.rec.Snapshot(), server)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return listing, cause
		}
		listing = mcp.Listing{Server: server.Name, State: mcp.Failed, Error: fault.Of(err).Message}
	}
	l.offers.mu.Lock()
	l.offers.remote[server.Name] = listing
	l.offers.mu.Unlock()
	return listing, nil
}

// listings returns what all servers offer now.
func (t *thread) listings(ctx context.Context) ([]mcp.Listing, error) {
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(servers, func(s mcp.Server) bool { return !s.Remote() }) && t.machine != nil {
		wait := firstServerWait
		t.offers.mu.Lock()
		if t.offers.asked {
			wait = 0
		}
		t.offers.mu.Unlock()
		here, err := t.machine.Servers(ctx, t.rec.Snapshot(), servers, wait)
		if err != nil {
			return nil, err
		}
		t.offers.mu.Lock()
		t.offers.here, t.offers.asked = here, true
		t.offers.mu.Unlock()
	}
	all := make([]mcp.Listing, len(servers))
	errs := make([]error, len(servers))
	var asking sync.WaitGroup
	for i, s := range servers {
		asking.Go(func() { all[i], errs[i] = t.listed(ctx, s, false) })
	}
	asking.Wait()
	for _, o := range t.offers.left {
		all = append(all, mcp.Listing{Server: o.Name, State: mcp.NotUsed, Error: o.Why})
	}
	return all, errors.Join(errs...)
}

// offer tells the model about the MCP servers if it does not know: before the
// first reply of a run, when a server has started or its tools have changed,
// and when a compaction has removed the message.
func (t *thread) offer(ctx context.Context) error {
	if t.Tools.MCP == nil {
		return nil
	}
	all, err := t.listings(ctx)
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
	return slices.DeleteFunc(slices.Clone(all), func(s tool.Spec) bool { return isMCP(s.Name) })
}

// mcpArgs holds the arguments of any of the four tools.
type mcpArgs struct {
	Server       string          `json:"server"`
	Tool         string          `json:"tool_name"`
	Arguments    json.RawMessage `json:"arguments,omitempty"`
	URI          string          `json:"uri"`
	DownloadPath string          `json:"downloadPath"`
}

func mcpArgsOf(c conversation.ToolCall) (mcpArgs, bool) {
	var a mcpArgs
	if !isMCP(c.Name) || json.Unmarshal(c.Args, &a) != nil {
		return a, false
	}
	if trimmed := bytes.TrimSpace(a.Arguments); len(trimmed) == 0 || string(trimmed) == "null" {
		a.Arguments = json.RawMessage("{}")
	}
	return a, true
}

// callsTool reports whether the call invokes a tool of a server, rather than
// listing something.
func (a mcpArgs) callsTool(name string) bool { return name == callMCP && a.Tool != "" }

// lostAnswer is the result of a call to a remote server whose response was
// lost.
const lostAnswer = "the Aloft server restarted while this call was running. The call may have had some or all of its effect, and its response is lost. It is not sent again: first check whether it had an effect."

// mcpCall runs a call to an MCP server. A server in the machine is called
// there, like any tool; a remote server is called from here. That the model
// names a server or a tool grants nothing: the server must be configured, and
// its tools allowed.
func (t *thread) mcpCall(ctx context.Context, c agent.Call) error {
	server, why, err := t.checkMCP(ctx, c.ToolCall)
	if err != nil {
		return err
	}
	if why != "" {
		return t.done(ctx, c.ID, tool.Failed("%s", why), 0)
	}
	if c.Name == signInMCP && server.Remote() {
		return t.signIn(ctx, c, server)
	}
	if c.Sent {
		if server.Name != "" && server.Remote() {
			return t.done(ctx, c.ID, tool.Failed("%s", lostAnswer), 0)
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
	if server, why, err = t.checkMCP(ctx, c.ToolCall); err != nil {
		return err
	}
	switch {
	case why != "":
		return t.done(ctx, c.ID, tool.Failed("%s", why), 0, t.unjournaled(c)...)
	case c.Name == listMCP && server.Name == "":
		return t.send(ctx, c, func(r *tool.Result) { t.addRemote(ctx, r) })
	case server.Remote():
		return t.remoteCall(ctx, c, server)
	}
	return t.send(ctx, c, nil)
}

// checkMCP finds the server of a call. If there is no such server or tool, why
// says so for the model.
func (t *thread) checkMCP(ctx context.Context, c conversation.ToolCall) (server mcp.Server, why string, err error) {
	a, ok := mcpArgsOf(c)
	if !ok {
		return server, "the arguments do not fit the schema", nil
	}
	servers, err := t.servers(ctx)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return server, "", cause
		}
		return server, fault.Of(err).Message, nil
	}
	if a.Server == "" && c.Name == listMCP {
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
	listing, err := t.listed(ctx, server, true)
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

// remoteCall runs a call to a remote server. The call is journaled before it is
// sent, and never sent twice.
func (t *thread) remoteCall(ctx context.Context, c agent.Call, server mcp.Server) error {
	a, _ := mcpArgsOf(c.ToolCall) // checkMCP has already parsed it
	if err := t.record(ctx, t.sent(c, "")...); err != nil {
		return err
	}
	start := time.Now()
	result, err := t.askRemote(ctx, c, server, a)
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

func (t *thread) askRemote(ctx context.Context, c agent.Call, server mcp.Server, a mcpArgs) (tool.Result, error) {
	s := t.state()
	switch {
	case c.Name == listMCP:
		resources, err := t.Tools.MCP.Resources(ctx, s, server)
		if err != nil {
			return tool.Result{}, err
		}
		return success(mcp.TellResources(resources), map[string]any{"resources": resources}), nil
	case c.Name == fetchMCP:
		contents, err := t.Tools.MCP.Read(ctx, s, server, a.URI)
		if err != nil {
			return tool.Result{}, err
		}
		if a.DownloadPath != "" {
			return t.download(ctx, c, contents, a)
		}
		r := mcp.Result{Content: contents}.Tool()
		r.Output = outputOf(map[string]any{"uri": a.URI, "text": r.Text})
		return r, nil
	case !a.callsTool(c.Name):
		listing, err := t.listed(ctx, server, true)
		if err != nil {
			return tool.Result{}, err
		}
		text := listing.Describe()
		return success(text, map[string]any{"content": []any{map[string]string{"text": text}}}), nil
	}
	answer, err := t.Tools.MCP.Call(ctx, s, server, a.Tool, a.Arguments)
	if err != nil {
		return tool.Result{}, err
	}
	r := answer.Tool()
	r.Output = outputOf(map[string]any{"content": []any{map[string]string{"text": r.Text}}, "isError": r.Error})
	return r, nil
}

// forget removes a remote server's listing from the cache.
func (l *Loop) forget(server mcp.Server) {
	l.offers.mu.Lock()
	defer l.offers.mu.Unlock()
	delete(l.offers.remote, server.Name)
}

func success(text string, output map[string]any) tool.Result {
	return tool.Result{Text: text, Output: outputOf(output)}
}

func outputOf(output map[string]any) json.RawMessage {
	text, err := json.Marshal(map[string]any{"success": output})
	if err != nil {
		return nil
	}
	return text
}

// downloadSuffix is appended to the id of a call, to form the id of the call
// that writes its download.
const downloadSuffix = "_write"

// download writes a remote server's response to a file in the machine. It uses
// the machine's Write tool, with its rules.
func (t *thread) download(ctx context.Context, c agent.Call, contents []mcp.Content, a mcpArgs) (tool.Result, error) {
	var text strings.Builder
	for _, piece := range contents {
		if piece.Data != nil {
			return tool.Failed("the resource is not text; only text resources of a remote server can be saved"), nil
		}
		text.WriteString(piece.Text)
	}
	inside := strings.TrimPrefix(a.DownloadPath, workspace+"/")
	if strings.HasPrefix(inside, "/") || slices.Contains(strings.Split(inside, "/"), "..") {
		return tool.Failed("%s is not inside the workspace %s: give a path there", a.DownloadPath, workspace), nil
	}
	args, err := json.Marshal(map[string]string{"path": a.DownloadPath, "contents": text.String()})
	if err != nil {
		return tool.Result{}, err
	}
	write := conversation.ToolCall{ID: c.ID + downloadSuffix, Name: "Write", Args: args}
	r, _, err := t.machine.Call(ctx, write, func(remote.Delta) {})
	if err != nil {
		return tool.Result{}, err
	}
	if err := t.machine.Ack(ctx, write.ID); err != nil {
		return tool.Result{}, err
	}
	if r.Error {
		return r, nil
	}
	return success(fmt.Sprintf("%d bytes are in %s", text.Len(), a.DownloadPath), map[string]any{"uri": a.URI, "savedTo": a.DownloadPath, "sizeBytes": text.Len()}), nil
}

// addRemote adds the remote servers' resources to those of the machine's
// servers.
func (t *thread) addRemote(ctx context.Context, r *tool.Result) {
	servers, err := t.servers(ctx)
	if err != nil {
		return
	}
	var all []mcp.Resource
	for _, s := range servers {
		if !s.Remote() {
			continue
		}
		found, err := t.Tools.MCP.Resources(ctx, t.state(), s)
		if err != nil {
			r.Text += fmt.Sprintf("\n%s: %s", s.Name, fault.Of(err).Message)
		}
		all = append(all, found...)
	}
	if len(all) > 0 {
		r.Text += "\n" + mcp.TellResources(all)
	}
}
