package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aloft/internal/mcp"
)

// protocol is the protocol version to request: the newest that starts with a handshake,
// which nearly all servers expect.
const protocol = "2025-11-25"

// Limits of one server, in addition to those in internal/mcp.
const (
	maxPages     = 50
	relistRest   = time.Second     // minimum time between two listings, if a server keeps changing its tools
	healthyAfter = 1 * time.Minute // a server that ran this long did not fail to start
	stopWithin   = 3 * time.Second
	endsWithin   = 300 * time.Millisecond // between a server's last message and its exit
)

// server is one configured server, across its restarts.
type server struct {
	m      *Manager
	conf   mcp.Server
	key    string
	env    []string
	around Around
	log    *stderrLog
	cancel context.CancelFunc
	done   chan struct{} // closed when its goroutine has returned
	again  chan struct{} // holds a token if a call asks for a restart of the server

	mu      sync.Mutex
	session *sdk.ClientSession // nil unless it is ready
	list    mcp.Listing
	changed chan struct{} // closed and replaced whenever list changes
}

func (m *Manager) begin(conf mcp.Server, key string, env []string, around Around) *server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{
		m: m, conf: conf, key: key, env: env, around: around, cancel: cancel, done: make(chan struct{}), again: make(chan struct{}, 1),
		list: mcp.Listing{Server: conf.Name, State: mcp.Starting}, changed: make(chan struct{}),
		log: newStderrLog(m.LogDir, conf.Name, m.Secrets),
	}
	go func() {
		defer close(s.done)
		defer s.log.close()
		s.keep(ctx)
	}()
	return s
}

// stop stops the server and waits until it has exited.
func (s *server) stop() {
	s.cancel()
	<-s.done
}

// keep starts the server, and restarts it when it exits.
func (s *server) keep(ctx context.Context) {
	wait := s.m.Backoff
	for starts := 1; ; starts++ {
		began := time.Now()
		err := s.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		s.m.Log.Warn("an MCP server ended", "server", s.conf.Name, "start", starts, "error", err)
		if time.Since(began) > healthyAfter {
			starts, wait = 1, s.m.Backoff
		}
		s.set(nil, mcp.Listing{Server: s.conf.Name, State: mcp.Failed, Error: s.failureText(err)})
		timer := time.NewTimer(wait)
		next := timer.C
		if starts >= maxStarts {
			next = nil // wait until it is called
		}
		select {
		case <-next:
			wait = min(2*wait, time.Minute)
		case <-s.again:
			wait = s.m.Backoff
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
		s.set(nil, mcp.Listing{Server: s.conf.Name, State: mcp.Starting})
	}
}

// failureText returns an error message about a failed server, for people and the model.
func (s *server) failureText(err error) string {
	words := mcp.Clean(s.redact(err.Error()), 300)
	if last := s.log.last(); last != "" {
		words += "; it printed: " + mcp.Clean(last, 500)
	}
	if s.log.path != "" {
		words += "; its whole output is in " + s.log.path
	}
	return words
}

func (s *server) redact(text string) string {
	if s.m.Secrets == nil {
		return text
	}
	return s.m.Secrets().String(text)
}

// runOnce starts the server, and returns when it has exited.
func (s *server) runOnce(ctx context.Context) error {
	p, err := s.start()
	if err != nil {
		return err
	}
	defer p.kill()
	moved := make(chan struct{}, 1)
	client := sdk.NewClient(&sdk.Implementation{Name: "aloft", Version: s.m.Version}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case moved <- struct{}{}:
			default:
			}
		},
	})
	client.AddRoots(&sdk.Root{URI: "file://" + s.m.Workspace, Name: "workspace"}) //nolint:staticcheck // current servers still use roots
	starting, cancel := context.WithTimeout(ctx, s.m.StartWithin)
	defer cancel()
	session, err := client.Connect(starting, p.transport(), &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		return p.explain(starting, fmt.Errorf("it did not start: %w", err))
	}
	defer func() { _ = session.Close() }() // it is killed in any case
	listing, err := s.ask(starting, session)
	if err != nil {
		return p.explain(starting, fmt.Errorf("its tools could not be listed: %w", err))
	}
	s.set(session, listing)
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	for {
		select {
		case <-moved:
			if err := s.relist(ctx, session); err != nil {
				return p.explain(ctx, fmt.Errorf("its tools could not be listed again: %w", err))
			}
		case err := <-ended:
			if err == nil {
				err = errors.New("it closed its output")
			}
			return p.explain(ctx, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// relist lists the tools again, but not too often.
func (s *server) relist(ctx context.Context, session *sdk.ClientSession) error {
	ask, cancel := context.WithTimeout(ctx, s.m.StartWithin)
	defer cancel()
	listing, err := s.ask(ask, session)
	if err != nil {
		return err
	}
	s.set(session, listing)
	timer := time.NewTimer(relistRest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// ask lists the tools.
func (s *server) ask(ctx context.Context, session *sdk.ClientSession) (mcp.Listing, error) {
	var tools []mcp.Tool
	has := session.InitializeResult()
	if has.Capabilities != nil && has.Capabilities.Tools != nil {
		for cursor, page := "", 0; page < maxPages; page++ {
			res, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err != nil {
				return mcp.Listing{}, err
			}
			for _, t := range res.Tools {
				if t == nil {
					continue
				}
				schema, err := json.Marshal(t.InputSchema)
				if err != nil {
					schema = nil
				}
				tools = append(tools, mcp.Tool{Name: t.Name, Description: s.redact(t.Description), Schema: []byte(s.redact(string(schema)))})
			}
			if cursor = res.NextCursor; cursor == "" || len(tools) > 10*mcp.MaxTools {
				break
			}
		}
	}
	return mcp.Admit(s.conf, s.redact(has.Instructions), tools), nil
}

func (s *server) set(session *sdk.ClientSession, l mcp.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session, s.list = session, l
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) current() (*sdk.ClientSession, mcp.Listing, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session, s.list, s.changed
}

// listing waits until the server has started or failed, or ctx ends.
func (s *server) listing(ctx context.Context) mcp.Listing {
	for {
		_, l, changed := s.current()
		if l.State != mcp.Starting {
			return l
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return l
		}
	}
}

// ready returns a session. It starts the server once more if it has failed.
func (s *server) ready(ctx context.Context) (*sdk.ClientSession, mcp.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.m.StartWithin)
	defer cancel()
	nudged := false
	for {
		session, l, changed := s.current()
		switch {
		case session != nil:
			return session, l, nil
		case l.State == mcp.Failed && nudged:
			return nil, l, fmt.Errorf("the MCP server %s is not running: %s", s.conf.Name, l.Error)
		case l.State == mcp.Failed:
			nudged = true
			select {
			case s.again <- struct{}{}:
			default:
			}
		}
		select {
		case <-changed:
		case <-s.done:
			return nil, l, fmt.Errorf("the MCP server %s was stopped", s.conf.Name)
		case <-ctx.Done():
			return nil, l, fmt.Errorf("the MCP server %s has not started yet; try again later", s.conf.Name)
		}
	}
}

// withSession makes a request with the timeout of a call, and converts its error to a
// message for the model.
func (s *server) withSession(ctx context.Context, do func(context.Context, *sdk.ClientSession, mcp.Listing) error) error {
	session, l, err := s.ready(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, s.m.CallWithin)
	defer cancel()
	err = do(bounded, session, l)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return lateError{fmt.Errorf("the MCP server %s timed out: no response within %s", s.conf.Name, s.m.CallWithin)}
	}
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return fmt.Errorf("the MCP server %s answered: %s", s.conf.Name, mcp.Clean(s.redact(rpcErr.Message), 2000))
	}
	if missing, ok := errors.AsType[noToolError](err); ok {
		return missing
	}
	s.m.Log.Debug("an MCP server gave no answer", "server", s.conf.Name, "error", err)
	return fmt.Errorf("the MCP server %s exited during the call, or sent an invalid response; the call may have taken effect, wholly or in part", s.conf.Name)
}

// noToolError is an error for the model about an unknown tool.
type noToolError string

func (e noToolError) Error() string { return string(e) }

func (s *server) call(ctx context.Context, tool string, args json.RawMessage) (out mcp.Result, err error) {
	err = s.withSession(ctx, func(ctx context.Context, session *sdk.ClientSession, l mcp.Listing) error {
		if _, ok := l.Find(tool); !ok {
			var names []string
			for _, t := range l.Tools {
				names = append(names, t.Name)
			}
			return noToolError(fmt.Sprintf("the MCP server %s has no tool %q; it has %s", s.conf.Name, mcp.Clean(tool, 80), strings.Join(names, ", ")))
		}
		if len(args) == 0 {
			args = json.RawMessage("{}")
		}
		res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			return err
		}
		out = resultOf(s.conf.Name, res)
		return nil
	})
	return out, err
}

func (s *server) resources(ctx context.Context) (out []mcp.Resource, err error) {
	err = s.withSession(ctx, func(ctx context.Context, session *sdk.ClientSession, _ mcp.Listing) error {
		if has := session.InitializeResult().Capabilities; has == nil || has.Resources == nil {
			return nil
		}
		for cursor, page := "", 0; page < maxPages; page++ {
			res, err := session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return err
			}
			for _, r := range res.Resources {
				if r != nil && len(out) < mcp.MaxResources {
					out = append(out, resourceOf(s.conf.Name, r))
				}
			}
			if cursor = res.NextCursor; cursor == "" || len(out) == mcp.MaxResources {
				return nil
			}
		}
		return nil
	})
	return out, err
}

func (s *server) read(ctx context.Context, uri string) (out []mcp.Content, err error) {
	err = s.withSession(ctx, func(ctx context.Context, session *sdk.ClientSession, _ mcp.Listing) error {
		res, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			return err
		}
		for _, c := range res.Contents {
			out = append(out, contentsOf(c)...)
		}
		return nil
	})
	return out, err
}

// lateError is a [context.DeadlineExceeded] with its own message.
type lateError struct{ error }

// Is makes errors.Is treat the error as [context.DeadlineExceeded].
func (lateError) Is(target error) bool { return target == context.DeadlineExceeded }
