package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"
	"aloft/internal/redact"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Party holds the sessions of one agent with its remote servers. It opens a
// session on first use and reuses it, so that a server can keep state between
// calls. Its methods are safe for concurrent use.
type Party struct {
	servers *Servers
	userID  int64
	foreign *outbound.Client // client for servers configured by the repository
	repo    string           // URL of that repository
	mu      sync.Mutex
	open    map[string]*connection
}

// connection holds the session with a server, if one is open.
type connection struct {
	mu      sync.Mutex
	server  mcp.Server // the configuration with which the session was opened
	session *session
	hidden  *secrets
}

// Party returns a party for an agent of the user. Servers configured by the
// repository are reached only through the client foreign.
func (s *Servers) Party(userID int64, repository string, foreign *outbound.Client) *Party {
	return &Party{servers: s, userID: userID, foreign: foreign, repo: repository, open: map[string]*connection{}}
}

// userOf returns the user on whose behalf the server is used.
func userOf(id int64, repository string, server mcp.Server) User {
	if server.Source != mcp.Project {
		repository = ""
	}
	return User{ID: id, Repository: repository}
}

// reach returns the HTTP client for the server.
func (p *Party) reach(server mcp.Server) *outbound.Client {
	if server.Source == mcp.Project {
		return p.foreign
	}
	return p.servers.Reach
}

// Close closes all sessions.
func (p *Party) Close() {
	p.mu.Lock()
	all := p.open
	p.open = map[string]*connection{}
	p.mu.Unlock()
	var ending sync.WaitGroup
	for _, c := range all {
		ending.Go(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.drop()
		})
	}
	ending.Wait()
}

func (c *connection) drop() {
	if c.session != nil {
		c.session.close()
		c.session = nil
	}
}

// connectionTo returns the entry for the server.
func (p *Party) connectionTo(server mcp.Server) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.open[server.Name]
	if c == nil {
		c = &connection{}
		p.open[server.Name] = c
	}
	return c
}

// session returns the open session, or a new one if there is none or fresh is
// set.
func (p *Party) session(ctx context.Context, server mcp.Server, fresh bool) (*session, *redact.Redactor, error) {
	c := p.connectionTo(server)
	c.mu.Lock()
	defer c.mu.Unlock()
	if fresh || c.session != nil && !equal(c.server, server) {
		c.drop()
	}
	if c.session == nil {
		reach := p.reach(server)
		if reach == nil {
			return nil, nil, errNoNetwork
		}
		opened, hidden, err := p.servers.open(ctx, reach, server, userOf(p.userID, p.repo, server))
		if err != nil {
			return nil, hidden.redactor(), err
		}
		c.session, c.hidden, c.server = opened, hidden, server
	}
	return c.session, c.hidden.redactor(), nil
}

// errNoNetwork means that a repository configures the server and the agent's
// machine has no network.
var errNoNetwork = fault.Denied("this agent's machine has no network, so servers configured by its repository cannot be used")

func equal(a, b mcp.Server) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// List requests the server's tools. If the server cannot be used, the listing
// contains the reason.
func (p *Party) List(ctx context.Context, server mcp.Server) mcp.Listing {
	s, hide, err := p.session(ctx, server, true)
	var l mcp.Listing
	if err == nil {
		l, err = s.list(ctx, server, hide)
	}
	if err == nil {
		return l
	}
	f := Failure(err, hide)
	state := mcp.Failed
	if f.Code == CodeSignIn {
		state = mcp.NeedsAuth
	}
	return mcp.Listing{Server: server.Name, State: state, Error: f.Message}
}

// MayHaveRun is the error of a call without a response: the server may or may
// not have executed it.
type MayHaveRun struct{ Why string }

func (m *MayHaveRun) Error() string {
	return m.Why + ". The call may have taken effect, in part or completely, and was not sent again. Check what it should have changed before you call again"
}

// Call calls a tool once. If the server has forgotten the session, it has
// certainly not executed the call, so Call opens a new session and repeats the
// call. The error is a [MayHaveRun] or a fault.
func (p *Party) Call(ctx context.Context, server mcp.Server, tool string, args json.RawMessage) (mcp.Result, error) {
	if !server.Allows(tool) {
		return mcp.Result{}, fault.Denied("the tool %s of %s may not be called: it is not in mcpServerAllowlist", tool, server.Name)
	}
	var arguments any = json.RawMessage(`{}`)
	if len(args) > 0 {
		arguments = args
	}
	var out mcp.Result
	err := p.ask(ctx, server, true, func(ctx context.Context, s *session, hide *redact.Redactor) (*attempt, error) {
		res, a, err := ask(ctx, callWithin, func(ctx context.Context) (*sdk.CallToolResult, error) {
			return s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
		})
		if err == nil {
			out = result(server.Name, res, hide)
		}
		return a, err
	})
	return out, err
}

// Resources lists the server's resources.
func (p *Party) Resources(ctx context.Context, server mcp.Server) ([]mcp.Resource, error) {
	var all []mcp.Resource
	err := p.ask(ctx, server, false, func(ctx context.Context, s *session, hide *redact.Redactor) (*attempt, error) {
		if has := s.InitializeResult().Capabilities; has == nil || has.Resources == nil {
			return nil, nil
		}
		found, a, err := ask(ctx, listWithin, func(ctx context.Context) ([]*sdk.Resource, error) {
			return pages(ctx, mcp.MaxResources, func(ctx context.Context, cursor string) ([]*sdk.Resource, string, error) {
				page, err := s.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return page.Resources, page.NextCursor, nil
			})
		})
		for _, r := range found {
			all = append(all, mcp.Resource{
				Server: server.Name, URI: hide.String(r.URI), Name: hide.String(r.Name), Title: hide.String(r.Title), Description: hide.String(r.Description),
				MediaType: r.MIMEType, SizeBytes: float64(r.Size),
			})
		}
		return a, err
	})
	return all, err
}

// Read reads a resource of the server.
func (p *Party) Read(ctx context.Context, server mcp.Server, uri string) ([]mcp.Content, error) {
	var out []mcp.Content
	err := p.ask(ctx, server, false, func(ctx context.Context, s *session, hide *redact.Redactor) (*attempt, error) {
		res, a, err := ask(ctx, listWithin, func(ctx context.Context) (*sdk.ReadResourceResult, error) {
			return s.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		})
		if err == nil {
			for _, c := range res.Contents {
				out = append(out, contents(c, hide))
			}
		}
		return a, err
	})
	return out, err
}

// ask runs do in a session with the server, and again in a new session if the
// server has forgotten the old one. acts means that the request may have side
// effects.
func (p *Party) ask(ctx context.Context, server mcp.Server, acts bool, do func(context.Context, *session, *redact.Redactor) (*attempt, error)) error {
	for again := false; ; again = true {
		s, hide, err := p.session(ctx, server, again)
		if err != nil {
			return cause(ctx, Failure(err, hide))
		}
		a, err := do(ctx, s, hide)
		switch {
		case err == nil:
			return nil
		case !again && a.forgotten(s):
			continue
		case !again && !a.reached.Load() && ctx.Err() == nil:
			continue // the server has not executed the request
		}
		var refusal *saidNo
		refused := a.unauthorized.Load() != nil || errors.As(err, &refusal)
		if acts && a.reached.Load() && !refused {
			return &MayHaveRun{hide.String(err.Error())}
		}
		return cause(ctx, Failure(err, hide))
	}
}

// cause returns the cause of ctx if ctx has ended, and otherwise err.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// forgotten reports whether the server answered that it does not know the
// session. If so, it has not executed the request.
func (a *attempt) forgotten(s *session) bool {
	r := a.refused.Load()
	return r != nil && r.status == 404 && s.ID() != ""
}

// result converts a server's response, and redacts the values that were sent to
// the server.
func result(server string, res *sdk.CallToolResult, hide *redact.Redactor) mcp.Result {
	out := mcp.Result{IsError: res.IsError, Structured: hide.Bytes(object(res.StructuredContent))}
	for _, c := range res.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			out.Content = append(out.Content, mcp.Content{Text: hide.String(c.Text)})
		case *sdk.ImageContent:
			out.Content = append(out.Content, mcp.Content{MediaType: c.MIMEType, Data: c.Data})
		case *sdk.AudioContent:
			out.Content = append(out.Content, mcp.Content{MediaType: c.MIMEType, Data: c.Data})
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				out.Content = append(out.Content, contents(c.Resource, hide))
			}
		case *sdk.ResourceLink:
			out.Content = append(out.Content, mcp.Content{Link: &mcp.Resource{
				Server: server, URI: hide.String(c.URI), Name: hide.String(c.Name), Title: hide.String(c.Title), Description: hide.String(c.Description), MediaType: c.MIMEType,
			}})
		default:
			out.Content = append(out.Content, mcp.Content{Text: fmt.Sprintf("(content of unknown type %T)", c)})
		}
	}
	return out
}

func contents(c *sdk.ResourceContents, hide *redact.Redactor) mcp.Content {
	out := mcp.Content{URI: hide.String(c.URI), MediaType: c.MIMEType, Data: c.Blob}
	if c.Blob == nil {
		out.Text = hide.String(c.Text)
	}
	return out
}
