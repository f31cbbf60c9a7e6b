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
	"aloft/internal/text"
)

// Limits of one request.
const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 30 * time.Second
	maxAnswer      = 16 << 20 // bytes; more than a hundred pull requests with bodies of maximum length take
	maxValues      = 200_000  // JSON values of a response; a hundred pull requests have less than 100,000
	maxErrorBody   = 64 << 10
	maxHeader      = 256 << 10 // bytes; the default of net/http is 10 MiB
	maxRedirects   = 3
	maxPages       = 10
	maxWholePages  = 200 // maximum number of pages of a list that is useful only if complete
)

// transport is shared by all wires.
var transport = sync.OnceValue(func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone() // supports proxies from the environment and HTTP/2
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 2 * dialTimeout
	t.MaxIdleConnsPerHost = 8
	t.MaxResponseHeaderBytes = maxHeader
	return t
})

// Tokens returns the configured token for a repository, or "" if there is none.
// It is called before each request, concurrently.
type Tokens func(ctx context.Context, r Repo) (string, error)

// Token returns a [Tokens] with the same token for every repository.
func Token(token string) Tokens {
	return func(context.Context, Repo) (string, error) { return token, nil }
}

// Wire sends JSON requests to the REST API of one host. It does not follow
// redirects to other hosts or redirects that change the method. It limits the
// size and duration of responses, converts failures to faults, and removes
// tokens from faults. It is safe for concurrent use.
type Wire struct {
	base    *url.URL
	client  http.Client
	tokens  Tokens
	headers func(h http.Header, token string)
	words   func(body []byte) string
}

// WireOptions describe how to talk to a kind of host.
type WireOptions struct {
	API     string                            // such as https://api.github.com
	Tokens  Tokens                            // required
	Client  *http.Client                      // only its transport is used; nil uses the environment's proxies
	Timeout time.Duration                     // timeout of one request; 30 seconds if 0
	Headers func(h http.Header, token string) // sets the headers for the kind of host, including the token
	Words   func(body []byte) string          // extracts the message from the body of an error response
}

// NewWire returns a Wire. It fails if the API's address is invalid.
func NewWire(o WireOptions) (*Wire, error) {
	base, err := url.Parse(strings.TrimRight(o.API, "/"))
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("%q is not an API address such as https://git.example.com", Line(o.API, 200))
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
		return fault.Conflict("%s has a redirect loop", via[0].URL.Host).Named(CodeConflict).Hint("check that the configured address is the host's own")
	case to.URL.Scheme != w.base.Scheme || to.URL.Host != w.base.Host:
		return fault.Conflict("%s redirects to %s, which would get the token", via[0].URL.Host, Line(to.URL.Host, 255)).Named(CodeConflict).Hint("configure the address that it leads to, if that is the host's")
	case to.Method != via[0].Method:
		return http.ErrUseLastResponse // following would turn the POST into a GET; the status of this response shows the redirect
	}
	return nil
}

// Ask is one request.
type Ask struct {
	Repo   Repo
	OfHost bool   // whether the request is about the host, so that Repo need not be complete
	Method string // defaults to GET
	Path   []string
	Query  url.Values
	In     any         // sent as JSON unless nil
	Out    any         // decoded from JSON unless nil
	Header http.Header // receives the response headers unless nil
	// Failed returns the fault that a decoded response reports despite a
	// successful status, or nil; optional.
	Failed func() error
}

// Do sends the request and decodes the response into a.Out.
func (w *Wire) Do(ctx context.Context, a Ask) error {
	_, err := w.do(ctx, w.address(a.Path, a.Query), a)
	return err
}

// Fetch sends the request and returns the decoded response.
func Fetch[T any](ctx context.Context, w *Wire, a Ask) (answer T, err error) {
	a.Out = &answer
	err = w.Do(ctx, a)
	return answer, err
}

// Pages requests a list page by page, at most ten pages. It calls page with the
// items of each until page returns true.
func Pages[T any](ctx context.Context, w *Wire, a Ask, page func([]T) (enough bool)) error {
	_, err := pages(ctx, w, a, maxPages, page)
	return err
}

// AllPages requests all pages of a list, and calls page with each. A list of
// more than 200 pages is an error, so that a truncated list is never mistaken
// for a complete one.
func AllPages[T any](ctx context.Context, w *Wire, a Ask, page func(T)) error {
	more, err := pages(ctx, w, a, maxWholePages, func(answer T) bool {
		page(answer)
		return false
	})
	if err == nil && more {
		err = fault.Unavailable("%s has more than %d pages about %s", a.Repo.Host, maxWholePages, a.Repo).Named(CodeUnreachable)
	}
	return err
}

// pages requests at most limit pages. more reports whether there are more
// pages.
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

// address appends names to the API's address, each escaped as one segment.
func (w *Wire) address(path []string, query url.Values) *url.URL {
	u := *w.base
	var b strings.Builder
	b.WriteString(w.base.EscapedPath())
	for _, p := range path {
		b.WriteString("/" + url.PathEscape(p))
	}
	u.RawPath = b.String()
	u.Path, _ = url.PathUnescape(u.RawPath) // escaped just above, so it can be unescaped
	u.RawQuery = query.Encode()
	return &u
}

func (w *Wire) do(ctx context.Context, at *url.URL, a Ask) (*url.URL, error) {
	res, token, err := w.send(ctx, &w.client, at, a)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := w.refused(a, res, token); err != nil {
		return nil, err
	}
	if a.Out == nil {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, clean(unreachable(ctx, a.Repo, err), token)
	case len(data) > maxAnswer:
		return nil, fault.Unavailable("the response of %s is larger than %d MiB", a.Repo.Host, maxAnswer>>20).Named(CodeUnreachable)
	case !new(text.Meter).Count(data, 0, maxValues):
		return nil, fault.Unavailable("the response of %s has more than %d values", a.Repo.Host, maxValues).Named(CodeUnreachable)
	}
	if err := json.Unmarshal(data, a.Out); err != nil {
		return nil, fault.Unavailable("the response of %s is not that of the expected API", a.Repo.Host).Named(CodeUnreachable).
			Hint("check the host's address, and `forge` in its entry of git.credentials").Because(errors.New("unexpected JSON"))
	}
	if a.Failed != nil {
		if err := a.Failed(); err != nil {
			return nil, clean(err, token)
		}
	}
	return next(at, res.Header), nil
}

// send sends a request, and returns the response and the token that it sent.
func (w *Wire) send(ctx context.Context, client *http.Client, at *url.URL, a Ask) (*http.Response, string, error) {
	if !a.Repo.valid() && !(a.OfHost && a.Repo.Host != "") {
		return nil, "", fault.Invalid("%q is not a repository of a forge", Line(a.Repo.String(), maxWords)).Named(CodeRefused)
	}
	if slices.ContainsFunc(a.Path, func(p string) bool { return p == "" || p == "." || p == ".." }) {
		return nil, "", fault.Invalid("the request about %s has an empty path segment", a.Repo).Named(CodeRefused) // an empty segment would change which resource the path names
	}
	token, err := w.tokens(ctx, a.Repo)
	if err != nil {
		return nil, "", err
	}
	if token == "" {
		return nil, "", fault.Invalid("no token is configured for %s", a.Repo).Named(CodeNoToken).
			Hint("add the URL https://%s and a token to git.credentials in the configuration", a.Repo.Host)
	}
	var body io.Reader
	if a.In != nil {
		data, err := json.Marshal(a.In)
		if err != nil {
			return nil, "", err
		}
		body = bytes.NewReader(data)
	}
	method := a.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "aloft")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	w.headers(req.Header, token)
	res, err := client.Do(req)
	if err != nil {
		return nil, "", clean(unreachable(ctx, a.Repo, err), token)
	}
	if a.Header != nil {
		maps.Copy(a.Header, res.Header)
	}
	return res, token, nil
}

// refused returns the fault of an unsuccessful response.
func (w *Wire) refused(a Ask, res *http.Response, token string) error {
	if res.StatusCode >= 200 && res.StatusCode <= 299 {
		return nil
	}
	data, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // read the explanation as far as possible
	return clean(Refusal(a.Repo, res.StatusCode, res.Header, w.words(data), time.Now()), token)
}

// next returns the address of the next page, which GitHub, GitLab and Gitea
// give in the Link header. It uses only the query of that link, because a host
// behind a proxy may not know its own address, and a link must not send the
// token to another host.
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

// minSecret is the minimum length of a token that is replaced in texts.
const minSecret = 4

// clean removes the token from a fault, because a hostile host may have echoed
// it.
func clean(err error, token string) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || len(token) < minSecret {
		return err
	}
	for _, t := range []string{token, url.QueryEscape(token), url.PathEscape(token)} {
		f.Message = strings.ReplaceAll(f.Message, t, "[token]")
	}
	return f
}
