// Package websearch searches the web with the provider that the operator has
// configured: a SearXNG server, Brave, Tavily, Exa, or a model of Anthropic or
// OpenAI that searches itself. It connects only to the
// configured address: redirects are errors, because they could lead the query
// and the key to somebody else.
package websearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"aloft/internal/text"
)

// Limits of one search. MaxQuery is the smallest limit of the providers.
const (
	MaxQuery   = 400 // characters
	maxResults = 10
	maxTitle   = 200    // characters
	maxURL     = 2000   // bytes; results with longer URLs are dropped
	maxSnippet = 600    // characters
	maxValues  = 50_000 // JSON values of a response
	maxBody    = 4 << 20
	within     = 30 * time.Second
	// modelWithin is the timeout for a model, which reads what it finds.
	modelWithin = 2 * time.Minute
	maxWait     = 10 * time.Second // maximum wait for a rate limit
	maxTries    = 3
)

// Providers lists the providers that can be configured.
var Providers = []string{"searxng", "brave", "tavily", "exa", "anthropic", "openai"}

// Config selects a provider.
type Config struct {
	Provider string // one of Providers
	URL      string // base address of the API; required for searxng; other providers have a default
	Key      string // required except for searxng, which uses it as a bearer token for a proxy in front of it
	Model    string // name of the model that searches; only for anthropic and openai, which require it
	// Wait waits before a search that exceeded the rate limit is retried; nil
	// waits for the time that the provider asks for.
	Wait func(context.Context, time.Duration) error
}

// Check validates the configuration. The error begins with the name of the
// wrong key.
func (c Config) Check() error {
	known, ok := kinds[c.Provider]
	switch {
	case c.Provider == "":
		return fmt.Errorf("provider is missing: must be %s", strings.Join(Providers, ", "))
	case !ok:
		return fmt.Errorf("provider: invalid value %q: must be one of %s", c.Provider, strings.Join(Providers, ", "))
	case c.URL == "" && known.base == "":
		return fmt.Errorf("url is missing: give the address of the %s server, such as https://search.example.com", c.Provider)
	case c.Key == "" && known.keyed:
		return fmt.Errorf("key is missing: %s needs one; set key_env or key_file", c.Provider)
	case c.Model == "" && known.modeled:
		return fmt.Errorf("model is missing: give %s's name of a model that searches the web", c.Provider)
	case c.Model != "" && !known.modeled:
		return fmt.Errorf("model: %s has no models; only anthropic and openai have", c.Provider)
	}
	if u, err := url.Parse(cmp.Or(c.URL, known.base)); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("url: invalid address %q: use an address such as https://search.example.com, without a user, query or fragment", c.URL)
	}
	return nil
}

// Result is one page that was found.
type Result struct{ Title, URL, Snippet string }

// Engine searches the web. It is safe for concurrent use.
type Engine struct {
	config Config
	kind   kind
	base   string
	within time.Duration
	client http.Client
}

// kind holds the differences between providers.
type kind struct {
	base  string // default address
	keyed bool   // whether the provider needs a key
	// modeled reports whether a model of the provider makes the search.
	modeled bool
	ask     func(ctx context.Context, e *Engine, query string) (*http.Request, error)
	read    func(body []byte) ([]Result, error)
	// words returns the message of an error response, or "".
	words func(body []byte) string
	// advice returns a hint for an operator about an HTTP status, or "".
	advice func(status int) string
}

var kinds = map[string]kind{"searxng": searxng, "brave": brave, "tavily": tavily, "exa": exa, "anthropic": anthropic, "openai": openai}

// New returns an Engine. It does not connect.
func New(c Config) (*Engine, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if c.Wait == nil {
		c.Wait = wait
	}
	e := &Engine{config: c, kind: kinds[c.Provider]}
	e.base = strings.TrimRight(cmp.Or(c.URL, e.kind.base), "/")
	e.within = within
	if e.kind.modeled {
		e.within = modelWithin
	}
	e.client = http.Client{
		Transport: http.DefaultTransport, Timeout: e.within,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return e, nil
}

// Provider returns the name of the provider.
func (e *Engine) Provider() string { return e.config.Provider }

// Search returns at most ten results, the best first. Titles and snippets are
// single lines of plain text of limited length. If the provider limits the
// rate, Search waits up to 10 seconds and tries again, at most twice. Errors
// contain neither the query nor the key.
func (e *Engine) Search(ctx context.Context, query string) ([]Result, error) {
	for try := 1; ; try++ {
		got, err := e.send(ctx, query)
		if err != nil {
			return nil, err
		}
		if got.status == http.StatusTooManyRequests && try < maxTries {
			if pause, ok := pauseOf(got.header); ok {
				if err := e.config.Wait(ctx, pause); err != nil {
					return nil, err
				}
				continue
			}
		}
		if got.status != http.StatusOK {
			return nil, e.refusal(got, query)
		}
		found, err := e.kind.read(got.body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.config.Provider, err)
		}
		return bounded(found), nil
	}
}

// response is the response of a provider.
type response struct {
	status int
	header http.Header
	body   []byte
}

// send makes one request and reads the response.
func (e *Engine) send(ctx context.Context, query string) (response, error) {
	req, err := e.kind.ask(ctx, e, query)
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "Aloft")
	resp, err := e.client.Do(req)
	if err != nil {
		return response{}, e.unreachable(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return response{}, e.unreachable(ctx, err)
	case len(body) > maxBody:
		return response{}, fmt.Errorf("%s sent more than %d MiB", e.config.Provider, maxBody>>20)
	case !new(text.Meter).Count(body, 0, maxValues):
		return response{}, fmt.Errorf("%s sent more than %d JSON values", e.config.Provider, maxValues)
	}
	return response{resp.StatusCode, resp.Header, body}, nil
}

// unreachable returns the error for a request without a response. It leaves out
// the URL, which may contain the query.
func (e *Engine) unreachable(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		if u.Timeout() {
			return fmt.Errorf("%s did not answer within %v", e.config.Provider, e.within)
		}
		err = u.Err
	}
	return fmt.Errorf("%s is unreachable: %w", e.config.Provider, err)
}

// quotes reports whether a provider's message contains a text that was sent,
// plain or escaped for a URL or JSON.
func quotes(words string, sent ...string) bool {
	for _, s := range sent {
		encoded, _ := json.Marshal(s) // encoding a string cannot fail
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), strings.Trim(string(encoded), `"`)} {
			if form != "" && strings.Contains(words, form) {
				return true
			}
		}
	}
	return false
}

// refusal returns the error for a response with a status other than 200. It leaves
// out the provider's words if they quote the key or the query.
func (e *Engine) refusal(r response, query string) error {
	text := strings.TrimSpace(fmt.Sprintf("%s answered %d %s", e.config.Provider, r.status, http.StatusText(r.status)))
	words := e.kind.words(r.body)
	if short := line(words, maxTitle); short != "" && !quotes(words, query, e.config.Key) && !quotes(short, query, e.config.Key) {
		text += ": " + short
	}
	advice := ""
	if e.kind.advice != nil {
		advice = e.kind.advice(r.status)
	}
	switch {
	case advice != "":
	case r.status >= 300 && r.status < 400:
		advice = "web_search.url redirects elsewhere: set it to the final address"
	case r.status == http.StatusUnauthorized || r.status == http.StatusForbidden:
		advice = "check the key of web_search in the server's configuration"
	case r.status == http.StatusTooManyRequests:
		advice = "the rate limit is used up: search less often"
	}
	if advice != "" {
		text += " (" + advice + ")"
	}
	return errors.New(text)
}

// pauseOf returns how long to wait after a response that reports a rate limit.
// It returns false if the wait is too long. Brave sends X-RateLimit-Reset with
// one number of seconds for each of its windows, the shortest first.
func pauseOf(h http.Header) (time.Duration, bool) {
	first, _, _ := strings.Cut(cmp.Or(h.Get("Retry-After"), h.Get("X-RateLimit-Reset")), ",")
	pause := time.Second
	if n, err := strconv.Atoi(strings.TrimSpace(first)); err == nil && n >= 0 {
		pause = time.Duration(min(n, int(time.Hour/time.Second))) * time.Second
	}
	return pause, pause <= maxWait
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// bounded returns the first results whose URLs can be opened, with their texts
// limited.
func bounded(found []Result) []Result {
	out := []Result{}
	for _, r := range found {
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(r.URL) > maxURL ||
			slices.ContainsFunc(out, func(o Result) bool { return o.URL == u.String() }) {
			continue
		}
		out = append(out, Result{Title: line(r.Title, maxTitle), URL: u.String(), Snippet: line(r.Snippet, maxSnippet)})
		if len(out) == maxResults {
			break
		}
	}
	return out
}

// line returns the text of an excerpt of a page on one line, of limited length.
// It removes characters that are invisible to people but visible to a model,
// except joiners, which some scripts and emoji need.
func line(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' || 0xE0100 <= r && r <= 0xE01EF {
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most-1]) + "…"
	}
	return text
}

// post returns a request with a JSON body.
func (e *Engine) post(ctx context.Context, path string, in any) (*http.Request, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+path, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// errShape is returned for a response that does not have the provider's format.
var errShape = errors.New("the response is not what its API describes; check web_search.url")

// errNoSearch is returned if a model has answered without a search.
var errNoSearch = errors.New("the model did not search; set web_search.model to one that can")

// refusedSearch returns the error for a search that the model's provider refused.
func refusedSearch(code string) error {
	return fmt.Errorf("the search failed: %s", line(code, maxTitle))
}
