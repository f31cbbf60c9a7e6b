package forgetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
	"aloft/internal/fault"
)

// Token is the only token that servers accept.
const Token = "t0ken/of+the=test"

// Server simulates a host's REST API for the repository acme/widget. It rejects
// fields, parameters and headers that the API does not document.
type Server struct {
	URL  string // http://127.0.0.1:…
	API  string // URL of the API
	Repo forge.Repo
	Fake *fake.Forge // holds the state of the server

	dialect dialect
	mux     *http.ServeMux

	store *httptest.Server // another host, to which requests for logs are redirected

	mu       sync.Mutex
	canned   []http.HandlerFunc
	requests []string
	actions  []string // names of the quick actions that texts of the client contained
	page     int      // maximum items per page
	jobs     []string // LogIDs in the fake; the index is the job's id minus 1

	pending map[int][]forge.LineComment // comments of the pending review of the token's user, by pull request
	dieAt   int                         // the host dies once before the n-th comment of a review, counted from 1; 0 means never
	empty   bool                        // whether the pending review exists, even without comments
}

// dialect describes the differences between hosts other than their routes.
type dialect struct {
	path    string // path of the API
	token   func(h http.Header) string
	headers map[string]string // required headers
	perPage string            // name of the page size parameter
	most    int               // maximum value of perPage
	refuse  func(status int, why string) any
	routes  func(*Server)
	noReply bool // whether the host rejects replies to threads
	// actions returns the names of the commands that the host executes because a
	// text contains them; nil if it executes none.
	actions func(text string) []string
}

func start(t testing.TB, d dialect) *Server {
	t.Helper()
	s := &Server{dialect: d, mux: http.NewServeMux(), page: 2} // so small that every list has several pages
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL, s.API = server.URL, server.URL+d.path
	host := strings.TrimPrefix(server.URL, "http://")
	s.Fake = fake.New(host)
	s.Fake.People, s.Fake.Writers = []string{"ada"}, []string{"ada"}
	s.store = httptest.NewServer(http.HandlerFunc(s.serveStored))
	t.Cleanup(s.store.Close)
	s.Repo = s.Fake.Add("acme/widget", "main")
	d.routes(s)
	return s
}

// Host returns the server in the form that [Run] needs.
func (s *Server) Host(t testing.TB, with func(t testing.TB, s *Server, token string) forge.Forge) Host {
	return Host{
		Forge: with(t, s, Token), Repo: s.Repo, Reviewer: "ada", NoReply: s.dialect.noReply,
		Add:  func(_ testing.TB, path string) { s.Fake.Add(path, "main") },
		Push: func(_ testing.TB, branch string) string { return s.Fake.Push(s.Repo, branch) },
		Check: func(_ testing.TB, commit, name string, state forge.CheckState) {
			s.Fake.SetCheck(s.Repo, commit, forge.Check{Name: name, State: state, LogID: commit + " " + name})
		},
		Say:        func(_ testing.TB, number int, body string) { s.Fake.Say(s.Repo, number, "ada", body) },
		OpenIssue:  func(_ testing.TB, title, body string) int { return s.Fake.OpenIssue(s.Repo, "ada", title, body) },
		SayAtIssue: func(_ testing.TB, number int, body string) { s.Fake.SayAtIssue(s.Repo, number, "ada", body) },
		SayOn: func(_ testing.TB, number int, path string, line int, body string) {
			s.Fake.SayOn(s.Repo, number, "ada", path, line, body)
		},
		SubmitReview: func(_ testing.TB, number int, verdict forge.ReviewVerdict, body string) {
			s.Fake.SubmitReview(s.Repo, number, "ada", verdict, body)
		},
		SetLog: func(_ testing.TB, commit, name, log string) { s.Fake.SetLog(s.Repo, commit+" "+name, log) },
		Token:  func(t testing.TB, token string) forge.Forge { return with(t, s, token) },
	}
}

// At returns a function that connects to a server with the given kind of
// adapter.
func At[F forge.Forge](adapter func(forge.Options) (F, error)) func(testing.TB, *Server, string) forge.Forge {
	return func(t testing.TB, s *Server, token string) forge.Forge {
		t.Helper()
		f, err := adapter(forge.Options{API: s.API, Tokens: forge.Token(token)})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
}

// Next makes h reply to the next request.
func (s *Server) Next(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.canned = append(s.canned, h)
}

// Requests returns the methods and paths requested since the last call.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.EscapedPath())
	var canned http.HandlerFunc
	if len(s.canned) > 0 {
		canned, s.canned = s.canned[0], s.canned[1:]
	}
	s.mu.Unlock()
	if canned != nil {
		canned(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// call is a request to which the server has not replied yet.
type call struct {
	*http.Request
	s      *Server
	repo   forge.Repo
	number int
	body   []byte
}

// refusal is an unsuccessful response.
type refusal struct {
	status int
	why    string
}

func (r refusal) Error() string { return r.why }

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Sprintf(format, args...)}
}

// route answers requests that match the pattern and have no other parameters
// than params and those for pagination. It sends a result of type []any or
// paged page by page.
func (s *Server) route(pattern, params string, answer func(c *call) (any, error)) {
	method, path, _ := strings.Cut(pattern, " ")
	s.mux.HandleFunc(method+" "+s.dialect.path+path, func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, s: s, repo: forge.Repo{Host: s.Repo.Host, Path: r.PathValue("owner") + "/" + r.PathValue("repo")}}
		if id := r.PathValue("id"); id != "" {
			c.repo.Path = id
		}
		out, err := s.answer(c, strings.Fields(params), answer)
		status := http.StatusOK
		if err != nil {
			no, ok := errors.AsType[refusal](err)
			if !ok {
				no = refusal{statusOf(err), fault.Of(err).Message}
			}
			status, out = no.status, s.dialect.refuse(no.status, no.why)
		} else if method == http.MethodPost && !strings.HasSuffix(path, "/merge") && path != "/graphql" {
			status = http.StatusCreated
		}
		switch v := out.(type) {
		case plainText:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = io.WriteString(w, string(v))
			return
		case redirect:
			http.Redirect(w, r, string(v), http.StatusFound)
			return
		case noContent:
			w.WriteHeader(http.StatusNoContent)
			return
		case []any:
			out = s.cut(w, r, v)
		case paged:
			v.with[v.name] = s.cut(w, r, v.list)
			out = v.with
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // ignore errors: the client has disconnected
	})
}

func (s *Server) answer(c *call, params []string, answer func(c *call) (any, error)) (any, error) {
	for name, want := range s.dialect.headers {
		if c.Header.Get(name) != want {
			return nil, refuse(http.StatusBadRequest, "the header %s is %q", name, c.Header.Get(name))
		}
	}
	if c.Header.Get("User-Agent") == "" {
		return nil, refuse(http.StatusForbidden, "request forbidden by administrative rules: no user agent")
	}
	if s.dialect.token(c.Header) != Token {
		return nil, refuse(http.StatusUnauthorized, "Bad credentials %s", c.Header.Get("Authorization"))
	}
	for name, values := range c.URL.Query() {
		if !slices.Contains(append(params, "page", s.dialect.perPage), name) || len(values) != 1 {
			return nil, refuse(http.StatusUnprocessableEntity, "the parameter %s is not known here", name)
		}
	}
	for _, name := range []string{"page", s.dialect.perPage} {
		if n, err := strconv.Atoi(cmp.Or(c.URL.Query().Get(name), "1")); err != nil || n < 1 || name != "page" && n > s.dialect.most {
			return nil, refuse(http.StatusBadRequest, "%s is %q", name, c.URL.Query().Get(name))
		}
	}
	if c.PathValue("id")+c.PathValue("owner") != "" && c.repo != s.Repo {
		return nil, refuse(http.StatusNotFound, "Not Found")
	}
	if n := c.PathValue("number"); n != "" {
		var err error
		if c.number, err = strconv.Atoi(n); err != nil || c.number < 1 || c.number > len(s.Fake.PullRequests(c.repo)) && !c.onIssue() {
			return nil, refuse(http.StatusNotFound, "Not Found")
		}
	}
	var err error
	if c.body, err = io.ReadAll(c.Body); err != nil {
		return nil, err
	}
	if len(c.body) > 0 && c.Header.Get("Content-Type") != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, "the body is %q", c.Header.Get("Content-Type"))
	}
	s.act(c.body)
	return answer(c)
}

type (
	plainText string   // a response that is not JSON
	redirect  string   // a redirect to an address
	noContent struct{} // a response without a body
)

// jobID returns the id of the job whose log has the LogID.
func (s *Server) jobID(logID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.jobs, logID) {
		s.jobs = append(s.jobs, logID)
	}
	return slices.Index(s.jobs, logID) + 1
}

// job returns the LogID of the job in the path of the call.
func (c *call) job() (string, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	id := atoi(c.PathValue("job"))
	if id < 1 || id > len(c.s.jobs) {
		return "", refuse(http.StatusNotFound, "Not Found")
	}
	return c.s.jobs[id-1], nil
}

// log returns the log of the job in the path of the call.
func (c *call) log() (string, error) {
	id, err := c.job()
	if err != nil {
		return "", err
	}
	return c.s.rawLog(id)
}

func (s *Server) rawLog(id string) (string, error) {
	log, ok := s.Fake.RawLog(s.Repo, id)
	if !ok {
		return "", refuse(http.StatusNotFound, "Not Found")
	}
	return log, nil
}

// serveStored serves logs as an object store does: the signed address is the
// only authorization, and it rejects a request with an Authorization header.
func (s *Server) serveStored(w http.ResponseWriter, r *http.Request) {
	log, err := s.rawLog(r.URL.Query().Get("of"))
	if err != nil || r.Header.Get("Authorization") != "" || r.Method != http.MethodGet || r.URL.Query().Get("sig") != "valid" {
		http.Error(w, "InvalidAuthenticationInfo", http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, log)
}

// thread returns a thread of the call's pull request by its id on the host.
// shown converts the fake's ids to those of the host.
func (c *call) thread(shown func(id string) string, id string) (forge.Thread, error) {
	all, err := c.s.Fake.Threads(c.Context(), c.repo, c.number)
	for _, t := range all {
		if shown(t.ID) == id {
			return t, nil
		}
	}
	if err == nil {
		err = refuse(http.StatusNotFound, "Not Found")
	}
	return forge.Thread{}, err
}

// paged is a response object that contains a paginated list.
type paged struct {
	name string
	list []any
	with map[string]any // the object's other fields, the same on every page
}

// cut returns the requested page of the list, and links to the next.
func (s *Server) cut(w http.ResponseWriter, r *http.Request, list []any) []any {
	q := r.URL.Query()
	size, err := strconv.Atoi(q.Get(s.dialect.perPage))
	if err != nil || size > s.page {
		size = s.page
	}
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		page = 1
	}
	from := min((page-1)*size, len(list))
	to := min(from+size, len(list))
	if to < len(list) {
		q.Set("page", strconv.Itoa(page+1))
		next := url.URL{Scheme: "https", Host: "as-the-host-believes.test", Path: r.URL.Path, RawQuery: q.Encode()}
		w.Header().Add("Link", fmt.Sprintf(`<%s>; rel="next", <%[1]s>; rel="last"`, next.String()))
	}
	return append([]any{}, list[from:to]...) // an empty list, not null
}

// decode decodes the body, and rejects fields that T does not have.
func decode[T any](c *call) (T, error) {
	var v T
	d := json.NewDecoder(bytes.NewReader(c.body))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return v, refuse(http.StatusBadRequest, "Problems parsing JSON: %v", err)
	}
	return v, nil
}

func statusOf(err error) int {
	switch fault.Of(err).Kind {
	case fault.KindNotFound:
		return http.StatusNotFound
	case fault.KindConflict:
		return http.StatusMethodNotAllowed
	case fault.KindInvalid:
		return http.StatusUnprocessableEntity
	}
	return http.StatusInternalServerError
}

// pull returns the pull request of the call.
func (c *call) pull() forge.PullRequest { return c.s.Fake.PullRequests(c.repo)[c.number-1] }

// open opens a pull request of the call's repository unless there is one already.
func (c *call) open(n forge.NewPullRequest, titleMost, bodyMost int) (forge.PullRequest, error) {
	if err := limits(n.Title, n.Body, titleMost, bodyMost); err != nil {
		return forge.PullRequest{}, err
	}
	for _, p := range c.s.Fake.PullRequests(c.repo) {
		if p.Head == n.Head && p.Base == n.Base && p.State == forge.Open {
			return p, refuse(http.StatusConflict, "A pull request already exists for acme:%s.", n.Head)
		}
	}
	n.Repo = c.repo
	return c.s.Fake.Open(c.Context(), n)
}

func limits(title, body string, titleMost, bodyMost int) error {
	if len([]rune(title)) > titleMost {
		return refuse(http.StatusUnprocessableEntity, "title is too long (maximum is %d characters)", titleMost)
	}
	if len([]rune(body)) > bodyMost {
		return refuse(http.StatusUnprocessableEntity, "body is too long (maximum is %d characters)", bodyMost)
	}
	return nil
}
