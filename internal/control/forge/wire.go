package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/fault"
)

// What one request may take.
const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 30 * time.Second
	maxAnswer      = 16 << 20 // bytes; a hundred pull requests with the longest bodies are less
	maxErrorBody   = 64 << 10
	maxRedirects   = 3
	maxPages       = 10
	maxWholePages  = 200 // of a list that is of use only as a whole
)

// transport is shared by all wires.
var transport = sync.OnceValue(func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone() // proxies from the environment, HTTP/2
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 2 * dialTimeout
	t.MaxIdleConnsPerHost = 8
	return t
})

// Tokens returns the token for a repository, as the configuration has it; "" if
// there is none. It is asked before each request, by several at once.
type Tokens func(ctx context.Context, r Repo) (string, error)

// Token is the same token for every repository.
func Token(token string) Tokens {
	return func(context.Context, Repo) (string, error) { return token, nil }
}

// Wire speaks JSON to the REST API of one host. It follows no redirect to
// another host, nor one that would make another request of it; it bounds what is
// read and how long that takes; it makes faults of what is no success; and it
// keeps tokens out of them. It is safe for concurrent use.
type Wire struct {
	base    *url.URL
	client  http.Client
	tokens  Tokens
	headers func(h http.Header, token string)
	words   func(body []byte) string
}

// WireOptions says how a kind of host is spoken to.
type WireOptions struct {
	API     string                            // https://api.github.com
	Tokens  Tokens                            // must be set
	Client  *http.Client                      // its transport is used; nil for one that takes proxies from the environment
	Timeout time.Duration                     // of one request; 30 seconds if 0
	Headers func(h http.Header, token string) // sets those of the host's kind, with the token
	Words   func(body []byte) string          // what the body of a refusal says to people
}

// NewWire returns a Wire. It fails if the API's address is none.
func NewWire(o WireOptions) (*Wire, error) {
	base, err := url.Parse(strings.TrimRight(o.API, "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("%q is no address of an API as https://git.example.com", Line(o.API, 200))
	}
	w := &Wire{base: base, tokens: o.Tokens, headers: o.Headers, words: o.Words}
	w.client = http.Client{Transport: transport(), Timeout: requestTimeout, CheckRedirect: w.redirect}
	if o.Timeout > 0 {
		w.client.Timeout = o.Timeout
	}
	if o.Client != nil && o.Client.Transport != nil {
		w.client.Transport = o.Client.Transport
	}
	return w, nil
}

func (w *Wire) redirect(to *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fault.Conflict("%s redirects round and round", via[0].URL.Host).Named(CodeConflict).Hint("check that the configured address is the host's own")
	case to.URL.Scheme != w.base.Scheme || to.URL.Host != w.base.Host:
		return fault.Conflict("%s redirects to %s, which would get the token", via[0].URL.Host, Line(to.URL.Host, 255)).Named(CodeConflict).Hint("configure the address that it leads to, if that is the host's")
	case to.Method != via[0].Method:
		return http.ErrUseLastResponse // a POST would become a GET; the answer's own status tells
	}
	return nil
}

// Ask is one request.
type Ask struct {
	Repo   Repo
	OfHost bool   // the request is about Repo's host, and Repo need not be whole
	Method string // GET unless given
	Path   []string
	Query  url.Values
	In     any         // sent as JSON unless nil
	Out    any         // read as JSON unless nil
	Header http.Header // gets those of the answer unless nil
}

// Do asks, and reads the answer into a.Out.
func (w *Wire) Do(ctx context.Context, a Ask) error {
	_, err := w.do(ctx, w.address(a.Path, a.Query), a)
	return err
}

// Pages asks for a list page by page until each has been read, enough says so,
// or ten were. page gets each page's items in turn.
func Pages[T any](ctx context.Context, w *Wire, a Ask, page func([]T) (enough bool)) error {
	_, err := pages(ctx, w, a, maxPages, page)
	return err
}

// Whole asks for a list page by page until each has been read; page gets each
// answer in turn. A list of more than 200 pages is an error, so that its
// beginning is never taken for the whole.
func Whole[T any](ctx context.Context, w *Wire, a Ask, page func(T)) error {
	more, err := pages(ctx, w, a, maxWholePages, func(answer T) bool {
		page(answer)
		return false
	})
	if err == nil && more {
		err = fault.Unavailable("%s has more than %d pages about %s", a.Repo.Host, maxWholePages, a.Repo).Named(CodeUnreachable)
	}
	return err
}

// pages asks for at most limit pages. more reports whether there are others.
func pages[T any](ctx context.Context, w *Wire, a Ask, limit int, page func(T) (enough bool)) (more bool, err error) {
	at := w.address(a.Path, a.Query)
	for range limit {
		var answer T
		a.Out = &answer
		next, err := w.do(ctx, at, a)
		if err != nil {
			return false, err
		}
		if page(answer) || next == nil {
			return false, nil
		}
		at = next
	}
	return true, nil
}

// address joins names to the API's address; each is one segment, whatever is in it.
func (w *Wire) address(path []string, query url.Values) *url.URL {
	u := *w.base
	var b strings.Builder
	b.WriteString(w.base.EscapedPath())
	for _, p := range path {
		b.WriteString("/" + url.PathEscape(p))
	}
	u.RawPath = b.String()
	u.Path, _ = url.PathUnescape(u.RawPath) // what was escaped here
	u.RawQuery = query.Encode()
	return &u
}

func (w *Wire) do(ctx context.Context, at *url.URL, a Ask) (*url.URL, error) {
	if !a.Repo.valid() && !(a.OfHost && a.Repo.Host != "") {
		return nil, fault.Invalid("%q is no repository of a forge", Line(a.Repo.String(), maxWords)).Named(CodeRefused)
	}
	if slices.ContainsFunc(a.Path, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return nil, fault.Invalid("what was asked of %s has no name", a.Repo).Named(CodeRefused) // it would lead elsewhere
	}
	token, err := w.tokens(ctx, a.Repo)
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, fault.Invalid("no token is configured for %s", a.Repo).Named(CodeNoToken).
			Hint("add the URL https://%s and a token to git.credentials in the configuration", a.Repo.Host)
	}
	var body io.Reader
	if a.In != nil {
		data, err := json.Marshal(a.In)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(data)
	}
	method := a.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "aloft")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	w.headers(req.Header, token)
	res, err := w.client.Do(req)
	if err != nil {
		return nil, clean(unreachable(ctx, a.Repo, err), token)
	}
	defer res.Body.Close()
	if a.Header != nil {
		maps.Copy(a.Header, res.Header)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		data, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what there is of an explanation
		return nil, clean(Refusal(a.Repo, res.StatusCode, res.Header, w.words(data), time.Now()), token)
	}
	if a.Out == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, clean(unreachable(ctx, a.Repo, err), token)
	case len(data) > maxAnswer:
		return nil, fault.Unavailable("%s answers with more than %d MiB", a.Repo.Host, maxAnswer>>20).Named(CodeUnreachable)
	}
	if err := json.Unmarshal(data, a.Out); err != nil {
		return nil, fault.Unavailable("what %s answers is not what its API should", a.Repo.Host).Named(CodeUnreachable).
			Hint("check that the address is the host's own, and its kind is right").Because(errors.New("not the JSON that was expected"))
	}
	return next(at, res.Header), nil
}

// next is the address of the next page, which GitHub, GitLab and Gitea all tell
// by Link. Only its query is taken: a host behind a proxy may not know how it is
// reached, and none is to lead the token elsewhere.
func next(at *url.URL, h http.Header) *url.URL {
	for _, header := range h.Values("Link") {
		for part := range strings.SplitSeq(header, ",") {
			target, params, _ := strings.Cut(strings.TrimSpace(part), ";")
			u, err := url.Parse(strings.Trim(target, "<>"))
			if err != nil || !strings.Contains(params, `rel="next"`) || u.RawQuery == at.RawQuery {
				continue
			}
			to := *at
			to.RawQuery = u.RawQuery
			return &to
		}
	}
	return nil
}

// clean takes the token out of a fault, which a hostile host may have put there.
func clean(err error, token string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(token) < 4 {
		return err
	}
	for _, t := range []string{token, url.QueryEscape(token), url.PathEscape(token)} {
		f.Message = strings.ReplaceAll(f.Message, t, "[token]")
	}
	return f
}
