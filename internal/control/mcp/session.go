package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"aloft/internal/control/outbound"
	"aloft/internal/fault"
	"aloft/internal/mcp"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a server's responses.
const (
	connectWithin = 20 * time.Second
	listWithin    = 30 * time.Second
	callWithin    = 5 * time.Minute
	maxMessage    = 8 << 20  // bytes of one message
	maxReply      = 32 << 20 // bytes of one response; a stream counts as one
	maxPages      = 20       // maximum pages of one list
	maxResumes    = 3        // how often a stream that a server has ended is resumed, which sends no call again
)

// Target is the address of a server and how to talk to it.
type Target struct {
	URL string
	// SSE selects the older SSE transport. If Either is true, the SSE transport is
	// tried after the streamable transport has failed.
	SSE, Either bool
	Header      map[string]string
	// Token returns the token for a request, or "" for none. refused is the
	// token that the server has just refused; Token then returns another one if
	// possible. The function may be nil.
	Token func(ctx context.Context, refused string) (string, error)
	// Refused is told of every response that requires a sign-in or more scopes.
	// It may be nil.
	Refused func(*Unauthorized)
}

// Unauthorized is the error of a server that requires a sign-in.
type Unauthorized struct {
	// Challenge holds the WWW-Authenticate headers.
	Challenge []string
	Status    int // HTTP status: 401 or 403
}

func (u *Unauthorized) Error() string {
	return fmt.Sprintf("the server requires a sign-in: it answers %d", u.Status)
}

// session is a session with one server. It is safe for concurrent use.
type session struct {
	*sdk.ClientSession
	http *http.Client
	end  context.CancelFunc
}

// open opens a session, which lasts until it is closed, even if ctx ends.
func open(ctx context.Context, client *http.Client, t Target, version string) (*session, error) {
	if t.Either {
		t.Either = false
		s, err := open(ctx, client, t, version)
		if err == nil || !oldFashioned(err) || ctx.Err() != nil {
			return s, err
		}
		t.SSE = true
		if s, sseErr := open(ctx, client, t, version); sseErr == nil {
			return s, nil
		}
		return nil, err // report the error of the current transport
	}
	origin, err := url.Parse(t.URL)
	if err != nil {
		return nil, errors.New("its address is not a URL")
	}
	mine := &http.Client{CheckRedirect: client.CheckRedirect, Transport: &credentials{next: client.Transport, target: t, origin: origin}}
	// The SSE stream lives as long as the session; ctx is only for connecting.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	late := time.AfterFunc(connectWithin, end)
	gone := context.AfterFunc(ctx, end)
	var transport sdk.Transport = &sdk.StreamableClientTransport{
		Endpoint: t.URL, HTTPClient: mine, MaxRetries: maxResumes, DisableStandaloneSSE: true, MaxEventSize: maxMessage,
	}
	if t.SSE {
		transport = &sdk.SSEClientTransport{Endpoint: t.URL, HTTPClient: mine, MaxEventSize: maxMessage}
	}
	a := &attempt{}
	c := sdk.NewClient(&sdk.Implementation{Name: "aloft", Version: version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	cs, err := c.Connect(withAttempt(life, a), transport, nil)
	if !late.Stop() || !gone() || err != nil {
		if err == nil {
			_ = cs.Close()
		}
		end()
		client.CloseIdleConnections()
		return nil, a.explain(ctx, err, connectWithin)
	}
	return &session{cs, client, end}, nil
}

// oldFashioned reports whether the error is typical of a server without the
// streamable transport.
func oldFashioned(err error) bool {
	refused, ok := errors.AsType[*refusedError](err)
	return ok && (refused.status == http.StatusNotFound || refused.status == http.StatusMethodNotAllowed || refused.status == http.StatusBadRequest)
}

func (s *session) close() {
	_ = s.Close() // ignore the error: the server may be gone
	s.end()
	s.http.CloseIdleConnections()
}

// ask runs do with a timeout.
func ask[T any](ctx context.Context, within time.Duration, do func(context.Context) (T, error)) (T, *attempt, error) {
	a := &attempt{}
	asking, cancel := context.WithTimeout(withAttempt(ctx, a), within)
	defer cancel()
	out, err := do(asking)
	if err != nil {
		err = a.explain(ctx, err, within)
	}
	return out, a, err
}

// pages requests pages of a list until there are no more pages, or enough
// items.
func pages[T any](ctx context.Context, most int, page func(ctx context.Context, cursor string) ([]T, string, error)) (all []T, err error) {
	for cursor, n := "", 0; ; n++ {
		some, next, err := page(ctx, cursor)
		all = append(all, some...)
		if err != nil || next == "" || next == cursor || n == maxPages-1 || len(all) >= most {
			return all[:min(len(all), most)], err
		}
		cursor = next
	}
}

// attempt records the results of the HTTP requests of one call.
type attempt struct {
	reached      atomic.Bool // whether the server may have read something
	unauthorized atomic.Pointer[Unauthorized]
	refused      atomic.Pointer[refusedError] // the last refusal
	blocked      atomic.Pointer[fault.Error]  // why a request was not sent, which the library does not always report
	unsigned     atomic.Pointer[fault.Error]  // why there was no token
}

type attemptKey struct{}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	ctx = context.WithValue(ctx, attemptKey{}, a)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { a.reached.Store(true) }})
}

// refusedError is an unsuccessful HTTP response.
type refusedError struct{ status int }

func (r *refusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("the server answers %d %s", r.status, http.StatusText(r.status)))
}

// saidNo is a JSON-RPC error response of the server.
type saidNo struct{ message string }

func (s *saidNo) Error() string { return "the server says: " + s.message }

// explain describes an error, without the URL, which may contain secrets.
func (a *attempt) explain(ctx context.Context, err error, within time.Duration) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u := a.unauthorized.Load(); u != nil {
		return u
	}
	if f := a.unsigned.Load(); f != nil {
		return f
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return fmt.Errorf("the server %s", f.Message)
	}
	if f := a.blocked.Load(); f != nil {
		return fmt.Errorf("the server %s", f.Message)
	}
	if w, ok := errors.AsType[*jsonrpc.Error](err); ok && w.Message != "rejected by transport" { // generated by the library itself
		return &saidNo{mcp.Clean(w.Message, maxWords)}
	}
	if r := a.refused.Load(); r != nil {
		return r
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var timeout net.Error
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("the server did not answer within %v", within)
	}
	if errors.Is(err, sdk.ErrConnectionClosed) {
		return errors.New("the server closed the connection or sent an invalid MCP message")
	}
	return errors.New(mcp.Clean(err.Error(), maxWords))
}

// credentials is a transport that adds headers and token to requests to the
// server, and to no other host.
type credentials struct {
	next   http.RoundTripper
	target Target
	origin *url.URL
}

func (c *credentials) RoundTrip(req *http.Request) (*http.Response, error) {
	a, _ := req.Context().Value(attemptKey{}).(*attempt)
	if a == nil {
		a = &attempt{}
	}
	if !outbound.SameOrigin(req.URL, c.origin) {
		away := fault.Invalid("redirects to another server, which is not followed").Named("redirected")
		a.blocked.Store(away)
		return nil, away
	}
	resp, token, err := c.send(req, a, "")
	// The server has not executed the refused request, so repeating it is safe.
	if err == nil && resp.StatusCode == http.StatusUnauthorized && token != "" && (req.Body == nil || req.GetBody != nil) {
		if again, fresh, err := c.send(req, a, token); err != nil || fresh != "" {
			_ = resp.Body.Close() // the body is not needed
			resp = again
			if err != nil {
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		u := &Unauthorized{Challenge: resp.Header.Values("WWW-Authenticate"), Status: resp.StatusCode}
		a.unauthorized.Store(u)
		if c.target.Refused != nil {
			c.target.Refused(u)
		}
	default:
		if resp.StatusCode >= 400 {
			a.refused.Store(&refusedError{resp.StatusCode})
		}
	}
	return resp, nil
}

// send sends the request with a token that differs from the refused token. If a
// token was refused and there is no other, it sends nothing.
func (c *credentials) send(req *http.Request, a *attempt, refused string) (resp *http.Response, token string, err error) {
	if c.target.Token != nil {
		if token, err = c.target.Token(req.Context(), refused); err != nil {
			a.unsigned.Store(fault.Of(err))
			return nil, "", err
		}
	}
	if refused != "" && (token == refused || token == "") {
		return nil, "", nil
	}
	body := req.Body
	if refused != "" && req.GetBody != nil {
		if body, err = req.GetBody(); err != nil {
			return nil, "", err
		}
	}
	req = req.Clone(req.Context())
	req.Body = body
	for name, value := range c.target.Header {
		req.Header.Set(name, value)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if resp, err = c.next.RoundTrip(req); err != nil {
		if f, ok := errors.AsType[*fault.Error](err); ok {
			a.blocked.Store(f)
		}
	}
	return resp, token, err
}

// object returns a server's JSON object in a form that is safe to show to a
// model.
func object(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil || len(b) == 0 || b[0] != '{' {
		return nil
	}
	return b
}
