package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"aloft/internal/account"
	"aloft/internal/agent"
	"aloft/internal/control/api/rest"
	v0 "aloft/internal/control/api/v0"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// legacyPrefix begins the paths whose errors have the shape of /v0.
const legacyPrefix = "/v0/"

// legacy returns routes for the operations of /v0, which call those of /v1.
func (s *server) legacy(v1 []rest.Route) []rest.Route {
	inner := http.NewServeMux()
	for _, rt := range v1 {
		if !rt.Long {
			inner.HandleFunc(rt.Method+" "+rt.Path, func(w http.ResponseWriter, r *http.Request) {
				in, _ := w.(*within) // only V1 calls this mux, with a *within
				in.err = rt.Handle(in, r, in.who)
			})
		}
	}
	var routes []rest.Route
	for _, old := range v0.Routes() {
		rt := rest.Route{Method: old.Method, Path: old.Path, ID: old.ID, Summary: old.Summary, In: old.In, Out: old.Out, Status: old.Status}
		if old.Paged {
			rt.Query = slices.Clone(rest.PageParams)
		}
		if old.Query != "" {
			rt.Query = append(rt.Query, rest.Param{Name: old.Query, Kind: "string", Words: "path of the artifact, as in the list"})
		}
		if old.Repeats {
			rt.Header = []rest.Param{rest.IdempotencyParam, rest.TraceParam}
		}
		rt.Handle = func(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
			out, err := old.Handle(&legacyCall{s: s, inner: inner, w: w, r: r, who: who})
			if err != nil {
				return err
			}
			return rest.WriteJSON(w, old.Status, out)
		}
		routes = append(routes, rt)
	}
	return routes
}

// A legacyCall is a request of /v0.
type legacyCall struct {
	s     *server
	inner http.Handler // the operations of /v1; its writer is always a *within
	w     http.ResponseWriter
	r     *http.Request
	who   account.APIKey
}

func (c *legacyCall) Request() *http.Request { return c.r }

func (c *legacyCall) Body(into any) error { return rest.ReadBody(c.w, c.r, into) }

func (c *legacyCall) V1(method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = rest.Marshal(in); err != nil {
			return err
		}
	}
	u, err := url.Parse(path)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(c.r.Context(), method, u.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if key := c.r.Header.Get("Idempotency-Key"); key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := &within{header: http.Header{}, who: c.who, status: http.StatusNotFound} // the status if the mux has no such path
	c.inner.ServeHTTP(w, r)
	switch {
	case w.err != nil:
		for _, name := range rest.RateHeaders {
			if v := w.header.Get(name); v != "" {
				c.w.Header().Set(name, v)
			}
		}
		return w.err
	case w.status == http.StatusNotFound, w.status/100 == 3: // a redirect: the mux knows a cleaner path
		return fault.NotFound("no such artifact or agent")
	case w.status >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: status %d", method, u.Path, w.status)
	}
	return json.Unmarshal(w.body.Bytes(), out)
}

func (c *legacyCall) Events(agentID string, after int64) ([]agent.Event, error) {
	return c.s.Journal.Read(c.r.Context(), agentID, after, rest.Batch)
}

// within records the reply of an inner operation instead of sending it.
type within struct {
	who    account.APIKey
	err    error // returned by the operation
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *within) Header() http.Header         { return w.header }
func (w *within) WriteHeader(status int)      { w.status = status }
func (w *within) Write(b []byte) (int, error) { return w.body.Write(b) }

// isLegacy reports whether the request is for /v0.
func isLegacy(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, legacyPrefix) }

// Private implements [v0.Call].
func (c *legacyCall) Private(agentID, runID string) (private, begun bool, err error) {
	ctx := c.r.Context()
	run, err := c.s.agents.Run(ctx, agentID, runID)
	if err != nil {
		return false, false, err
	}
	a, err := c.s.Agents.Agent(ctx, agentID)
	if err != nil {
		return false, false, err
	}
	if begun, err = store.PrivacyOf(ctx, c.s.Rules, agent.Run{CreatedAt: a.CreatedAt}); err != nil {
		return false, false, err
	}
	private, err = store.PrivacyOf(ctx, c.s.Rules, run)
	return private, begun, err
}
