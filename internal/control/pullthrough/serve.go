package pullthrough

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"aloft/internal/control/image/registry"
	"aloft/internal/fault"
)

// Limits of one machine's requests.
const (
	maxRequests = 16               // that run at once
	maxSources  = 128              // repositories whose connections are kept
	maxBlob     = 64 << 30         // bytes of a blob
	maxWait     = 30 * time.Second // for a slot
	maxIdle     = 2 * time.Minute  // without progress of a download
)

// For returns the handler of one machine's requests. A nil *Server returns nil.
func (s *Server) For(g Grant) http.Handler {
	if s == nil {
		return nil
	}
	return &machine{Server: s, grant: g, slots: make(chan struct{}, maxRequests), sources: map[string]*registry.Source{}}
}

// machine serves one machine.
type machine struct {
	*Server
	grant Grant
	slots chan struct{}

	mu      sync.Mutex
	sources map[string]*registry.Source // by host, repository and kind of access
}

// requestPath is the path of a request that only reads: a repository, and what
// is read of it.
var requestPath = regexp.MustCompile(`^/v2/([a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*)/(manifests/(?:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}|sha256:[0-9a-f]{64})|blobs/sha256:[0-9a-f]{64}|tags/list)$`)

// Headers that are passed on in requests and responses.
var (
	requestHeaders  = []string{"Accept", "Range", "If-None-Match"}
	responseHeaders = []string{"Content-Type", "Content-Length", "Content-Range", "Accept-Ranges", "Docker-Content-Digest", "Etag"}
)

// ServeHTTP serves one request of the registry protocol. The Host header names
// the registry.
func (m *machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	host := strings.TrimSuffix(strings.ToLower(r.Host), ":443")
	from, ok := m.registries[host]
	if !ok {
		say(w, http.StatusNotFound, "NAME_UNKNOWN", "the server does not pull from this registry")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		say(w, http.StatusMethodNotAllowed, "UNSUPPORTED", fmt.Sprintf("the server only pulls from %s; to use your own login, add `export NO_PROXY=%s` to /etc/default/docker and restart Docker", host, host))
		return
	}
	// The policy may have changed since the machine got the list of registries.
	network, err := m.grant.Network()
	if err != nil {
		m.fail(w, host, "", err)
		return
	}
	if rule := refusal(network, host); rule != "" {
		say(w, http.StatusForbidden, "DENIED", "the network policy of this machine refuses "+host+": "+rule)
		return
	}
	if r.URL.Path == "/v2/" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}") // ignore errors: the client has disconnected
		return
	}
	parts := requestPath.FindStringSubmatch(r.URL.Path)
	if parts == nil || len(parts[1]) > 255 {
		say(w, http.StatusNotFound, "UNSUPPORTED", "only manifests, blobs by sha256 and lists of tags can be read through the server")
		return
	}
	if !m.enter(r.Context()) {
		w.Header().Set("Retry-After", "5")
		say(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", "too many pulls run at once in this machine")
		return
	}
	defer func() { <-m.slots }()
	m.pull(w, r, from, host, parts[1], parts[2])
}

// enter waits for a slot. The caller receives from m.slots to release it.
func (m *machine) enter(ctx context.Context) bool {
	wait := time.NewTimer(maxWait)
	defer wait.Stop()
	select {
	case m.slots <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

func (m *machine) pull(w http.ResponseWriter, r *http.Request, from source, host, repository, what string) {
	a := from.decide(r.Context(), m.grant, repository)
	if a.refused != "" {
		m.log.Warn("pull refused", "for", m.grant.ID, "registry", host, "image", repository, "why", a.refused)
		say(w, http.StatusForbidden, "DENIED", host+"/"+repository+": "+a.refused)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	idle := time.AfterFunc(maxIdle, cancel)
	defer idle.Stop()
	src, err := m.open(ctx, from, repository, a.anonymous)
	if err != nil {
		m.fail(w, host, repository, err)
		return
	}
	header := http.Header{}
	for _, name := range requestHeaders {
		if v := r.Header.Values(name); len(v) > 0 {
			header[name] = v
		}
	}
	query := url.Values{}
	if what == "tags/list" {
		for _, name := range []string{"n", "last"} {
			if v := r.URL.Query().Get(name); v != "" {
				query.Set(name, v)
			}
		}
	}
	resp, err := src.Get(ctx, r.Method, what, query, header)
	if err != nil {
		m.fail(w, host, repository, err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 && resp.StatusCode != http.StatusNotModified {
		m.sayStatus(w, host, repository, resp.StatusCode)
		return
	}
	m.log.Info("pull", "for", m.grant.ID, "registry", host, "image", repository, "what", what, "credential", !a.anonymous)
	for _, name := range responseHeaders {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	if next := resp.Header.Get("Link"); strings.HasPrefix(next, "</v2/"+repository+"/tags/list") {
		w.Header().Set("Link", next)
	}
	w.WriteHeader(resp.StatusCode)
	if r.Method == http.MethodGet && stream(w, resp.Body, idle) != nil {
		panic(http.ErrAbortHandler) // so that the machine does not take a part for the whole
	}
}

// stream copies body to w. Each step extends the idle timeout, which cancels the
// request to the registry, and the write deadline.
func stream(w http.ResponseWriter, body io.Reader, idle *time.Timer) error {
	rc := http.NewResponseController(w)
	buffer := make([]byte, 64<<10)
	for left := int64(maxBlob); left > 0; {
		n, err := body.Read(buffer)
		idle.Reset(maxIdle)
		_ = rc.SetWriteDeadline(time.Now().Add(maxIdle))
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return failed
		}
		left -= int64(n)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("more than %d bytes", int64(maxBlob))
}

// open returns the source for a repository, and keeps it for later requests.
func (m *machine) open(ctx context.Context, from source, repository string, anonymous bool) (*registry.Source, error) {
	key := fmt.Sprint(from.host, " ", repository, " ", anonymous)
	m.mu.Lock()
	src := m.sources[key]
	m.mu.Unlock()
	if src != nil {
		return src, nil
	}
	src, err := m.client.Source(ctx, from.host, repository, anonymous)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sources) >= maxSources {
		clear(m.sources)
	}
	m.sources[key] = src
	return src, nil
}

// fail reports an error. Only the text of a fault is shown to the machine.
func (m *machine) fail(w http.ResponseWriter, host, repository string, err error) {
	m.log.Warn("pull failed", "for", m.grant.ID, "registry", host, "image", repository, "err", err)
	f := fault.Of(err)
	switch f.Kind {
	case fault.KindDenied:
		say(w, http.StatusForbidden, "DENIED", f.Message)
	case fault.KindNotFound:
		say(w, http.StatusNotFound, "NAME_UNKNOWN", f.Message)
	case fault.KindExhausted:
		say(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", f.Message)
	case fault.KindUnavailable:
		say(w, http.StatusServiceUnavailable, "UNAVAILABLE", f.Message)
	default:
		say(w, http.StatusBadGateway, "UNKNOWN", "the server cannot pull "+host+"/"+repository)
	}
}

// sayStatus passes on that the registry refuses. The registry's text is not
// shown: it may have come from a redirect.
func (m *machine) sayStatus(w http.ResponseWriter, host, repository string, status int) {
	m.log.Warn("pull failed", "for", m.grant.ID, "registry", host, "image", repository, "status", status)
	name := host + "/" + repository
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		say(w, http.StatusForbidden, "DENIED", fmt.Sprintf("%s denies access to %s: the image does not exist, or the server may not pull it", host, name))
	case http.StatusNotFound:
		say(w, http.StatusNotFound, "MANIFEST_UNKNOWN", name+" has no such tag, manifest or blob")
	case http.StatusTooManyRequests:
		say(w, http.StatusTooManyRequests, "TOOMANYREQUESTS", host+" limits the rate of requests")
	case http.StatusRequestedRangeNotSatisfiable:
		say(w, status, "UNSUPPORTED", "the blob is shorter")
	default:
		say(w, http.StatusBadGateway, "UNKNOWN", fmt.Sprintf("%s answered with status %d", host, status))
	}
}

// say sends an error in the form that Docker shows to its user.
func say(w http.ResponseWriter, status int, code, message string) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(maxIdle))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	type item struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	_ = json.NewEncoder(w).Encode(map[string][]item{"errors": {{code, message}}}) // ignore errors: the client has disconnected
}
