package gateway

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/lfs"
	"aloft/internal/control/mirror"
	"aloft/internal/control/repourl"
	"aloft/internal/fault"
)

// request is one authenticated request of a machine.
type request struct {
	g        *Gateway
	s        *session
	access   access
	protocol string // value of the Git-Protocol header
	w        http.ResponseWriter
	rc       *http.ResponseController
	body     io.Reader
	start    time.Time
	host     string     // host name that the machine uses for this gateway
	object   lfs.Object // LFS object in the path, if any
}

// endpoint is the last part of a path and its handler.
type endpoint struct {
	suffix, method, service string
	serve                   func(*request, context.Context)
}

var endpoints = []endpoint{
	{"/info/refs", http.MethodGet, "git-upload-pack", (*request).advertiseFetch},
	{"/info/refs", http.MethodGet, "git-receive-pack", (*request).advertisePush},
	{"/git-upload-pack", http.MethodPost, "", (*request).fetch},
	{"/git-receive-pack", http.MethodPost, "", (*request).push},
	{"/info/lfs/objects/batch", http.MethodPost, "", (*request).lfsBatch},
	{"/info/lfs/locks/verify", http.MethodPost, "", (*request).lfsLocks},
}

// oneLargeFile are the endpoints below the path of an LFS object.
var oneLargeFile = []endpoint{
	{"", http.MethodGet, "", (*request).lfsDownload},
	{"", http.MethodPut, "", (*request).lfsUpload},
}

// ServeHTTP serves one request of a machine. The surrounding server must limit
// connections, and the size and time of headers.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	in := newPatientReader(w, r)
	s := g.session(r)
	if s == nil {
		w.Header().Set("WWW-Authenticate", `Basic realm="aloft"`)
		say(w, http.StatusUnauthorized, "This machine's git credential is invalid or revoked: its run may have ended.",
			"Start a new run to use git again.")
		return
	}
	defer g.serving.Done()
	e, path, object := route(r)
	if e == nil {
		say(w, http.StatusNotFound, "There is nothing here: only git's smart HTTP protocol is served.", "")
		return
	}
	if r.Method != e.method {
		w.Header().Set("Allow", e.method)
		say(w, http.StatusMethodNotAllowed, "Use "+e.method+".", "")
		return
	}
	repo, err := repourl.ParsePath(path)
	if err != nil {
		sayFault(w, err)
		return
	}
	access, ok := s.access(repo)
	if !ok {
		g.log.Warn("git refused", "agent", s.grant.AgentID, "run", s.grant.RunID, "repo", repo.Key(), "why", "not granted")
		say(w, http.StatusForbidden, fmt.Sprintf("This run may not use the repository %s. It may use: %s.", repo, s.list()),
			"To let an agent use it, name it among the agent's repositories when it is started, or in repositoryDependencies of its environment.json.")
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if !s.enter(ctx) {
		sayBusy(w)
		return
	}
	defer s.leave()
	body, err := decoded(r, in)
	if err != nil {
		say(w, http.StatusUnsupportedMediaType, err.Error(), "")
		return
	}
	q := &request{g, s, access, gitProtocol(r), w, in.rc, body, time.Now(), r.Host, object}
	e.serve(q, ctx)
}

// route returns the endpoint, the part of the path that names the repository,
// and the LFS object in the path.
func route(r *http.Request) (*endpoint, string, lfs.Object) {
	path := r.URL.EscapedPath()
	if m := lfsObject.FindStringSubmatch(path); m != nil {
		e := &oneLargeFile[0]
		if r.Method == http.MethodPut {
			e = &oneLargeFile[1]
		}
		size, err := strconv.ParseInt(r.URL.Query().Get("size"), 10, 64)
		if err != nil || size < 0 {
			return nil, "", lfs.Object{}
		}
		return e, m[1], lfs.Object{OID: m[2], Size: size}
	}
	for i, e := range endpoints {
		repo, ok := strings.CutSuffix(path, e.suffix)
		if ok && (e.service == "" || r.URL.Query().Get("service") == e.service) {
			return &endpoints[i], repo, lfs.Object{}
		}
	}
	return nil, "", lfs.Object{}
}

const maxWait = 30 * time.Second // timeout for a request slot

const maxQueue = 64 // maximum of running and waiting requests per machine

// enter waits for one of the session's request slots. leave releases it.
func (s *session) enter(ctx context.Context) bool {
	if s.queue.Add(1) > maxQueue {
		s.queue.Add(-1)
		return false
	}
	if !take(ctx, s.slots) {
		s.queue.Add(-1)
		return false
	}
	return true
}

// take waits up to maxWait for a slot. The caller receives from slots to
// release the slot.
func take(ctx context.Context, slots chan<- struct{}) bool { return takeWithin(ctx, slots, maxWait) }

func takeWithin(ctx context.Context, slots chan<- struct{}, limit time.Duration) bool {
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case slots <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// sayBusy refuses a request for which no slot became free.
func sayBusy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "5")
	say(w, http.StatusServiceUnavailable, "Too many git commands run at once in this machine.", "Wait for some to end.")
}

func (s *session) leave() {
	<-s.slots
	s.queue.Add(-1)
}

var protocolPattern = regexp.MustCompile(`^version=[012]$`)

// gitProtocol returns the Git-Protocol header, or "" if the header contains an
// unknown value.
func gitProtocol(r *http.Request) string {
	for part := range strings.SplitSeq(r.Header.Get("Git-Protocol"), ":") {
		if protocolPattern.MatchString(part) {
			return part
		}
	}
	return ""
}

func decoded(r *http.Request, body io.Reader) (io.Reader, error) {
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		return &lazyGzip{body: body}, nil
	default:
		return nil, errors.New("unsupported Content-Encoding; use gzip or none")
	}
}

// lazyGzip is a gzip reader that reads the header only on the first Read.
type lazyGzip struct {
	body io.Reader
	z    *gzip.Reader
}

func (l *lazyGzip) Read(p []byte) (int, error) {
	if l.z == nil {
		z, err := gzip.NewReader(l.body)
		if err != nil {
			return 0, err
		}
		l.z = z
	}
	return l.z.Read(p)
}

// say sends an error that git shows to its user, with a hint.
func say(w http.ResponseWriter, status int, message, hint string) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(idleTimeout))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	text := "aloft: " + message + "\n"
	if hint != "" {
		text += hint + "\n"
	}
	_, _ = io.WriteString(w, text) // ignore errors: the client has disconnected
}

// sayFault sends an error. If err is not a fault, its text is not revealed.
func sayFault(w http.ResponseWriter, err error) {
	f := fault.Of(err)
	status := http.StatusInternalServerError
	switch {
	case f.Code == mirror.CodeRepoNotFound:
		status = http.StatusNotFound
	case f.Code == mirror.CodeCredentialRefused, f.Code == mirror.CodeUnreachable:
		status = http.StatusBadGateway
	case f.Code == mirror.CodeDiskFull:
		status = http.StatusInsufficientStorage
	case f.Kind == fault.KindInvalid:
		status = http.StatusBadRequest
	case f.Kind == fault.KindDenied:
		status = http.StatusForbidden
	}
	say(w, status, f.Message, f.Advice)
}

// log writes a log line about a fetch or push.
func (q *request) log(what, outcome string, attrs ...any) {
	q.g.log.Info(what, append([]any{
		"agent", q.s.grant.AgentID, "run", q.s.grant.RunID, "repo", q.access.repo.String(), "outcome", outcome,
		"duration", time.Since(q.start),
	}, attrs...)...)
}

// fail sends an error and logs its details.
func (q *request) fail(what string, err error) {
	q.log(what, fault.Of(err).Code, "err", err)
	sayFault(q.w, err)
}
