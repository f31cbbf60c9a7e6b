package pullthrough

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	realregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"aloft/internal/control/image/registry"
	"aloft/internal/policy"
)

const token = "t0ken-of-the-server"

// upstream is a real registry. Repositories other than those below public/
// require the server's login.
type upstream struct {
	*httptest.Server
	host string

	mu     sync.Mutex
	before http.HandlerFunc // handles requests instead of the registry; nil means none
	asked  []string         // methods and paths of requests with the login
}

func newUpstream(t *testing.T) *upstream {
	t.Setenv("HOME", t.TempDir()) // without the logins of the user who runs the test
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	u := &upstream{}
	inner := realregistry.New(realregistry.Logger(log.New(io.Discard, "", 0)))
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		in := user == "robot" && password == token
		u.mu.Lock()
		before := u.before
		if in {
			u.asked = append(u.asked, r.Method+" "+r.URL.Path)
		}
		u.mu.Unlock()
		switch {
		case !in && !(strings.HasPrefix(r.URL.Path, "/v2/public/") && r.Method != http.MethodPost && r.Method != http.MethodPut):
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
		case before != nil && r.URL.Path != "/v2/":
			before(w, r)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(u.Close)
	u.host = strings.TrimPrefix(u.URL, "http://")
	return u
}

// push stores an image as repository:1, and returns the digest of its layer.
func (u *upstream) push(t *testing.T, repository string) (layer string) {
	t.Helper()
	img, err := random.Image(1<<20, 1)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(u.host + "/" + repository + ":1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithAuth(&authn.Basic{Username: "robot", Password: token})); err != nil {
		t.Fatal(err)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// server returns a server with rules for the upstream registry.
func (u *upstream) server(rules ...Rule) *Server {
	client := registry.New(registry.Config{
		Credentials: map[string]registry.Credential{u.host: {Username: "robot", Token: token}},
		Outbound:    policy.Network{Mode: policy.None},
	})
	return New(Config{Client: client, Rules: map[string][]Rule{u.host: rules}})
}

// everywhere is the policy of a machine that may connect to loopback, where the
// registry is.
var everywhere = policy.Network{Mode: policy.AllowAll, Open: []string{"127.0.0.0/8"}}

// theirs may use only the git repository https://git.test/team/theirs.
func theirs(network policy.Network) Grant {
	return Grant{ID: "bc-1", Network: func() (policy.Network, error) { return network, nil }, May: func(_ context.Context, url string) error {
		if url == "https://git.test/team/theirs" {
			return nil
		}
		return errors.New("not theirs")
	}}
}

// ask sends a request of the machine's Docker to the registry host.
func ask(h http.Handler, method, host, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://"+host+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestPull reads an image as Docker does, with the server's login, which is not
// in any response.
func TestPull(t *testing.T) {
	u := newUpstream(t)
	layer := u.push(t, "team/app")
	h := u.server(Rule{Images: "team/*"}).For(theirs(everywhere))
	if w := ask(h, "GET", u.host, "/v2/"); w.Code != 200 || w.Header().Get("WWW-Authenticate") != "" {
		t.Errorf("ping: %d %v", w.Code, w.Header())
	}
	manifest := ask(h, "GET", u.host, "/v2/team/app/manifests/1", "Accept", "application/vnd.docker.distribution.manifest.v2+json")
	var m struct{ Layers []struct{ Digest string } }
	if err := json.Unmarshal(manifest.Body.Bytes(), &m); err != nil || len(m.Layers) != 1 || m.Layers[0].Digest != layer || !strings.HasPrefix(manifest.Header().Get("Docker-Content-Digest"), "sha256:") {
		t.Fatalf("manifest: %d %s %v", manifest.Code, manifest.Body, manifest.Header())
	}
	head := ask(h, "HEAD", u.host, "/v2/team/app/manifests/1")
	if head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %v", head.Code, head.Header())
	}
	whole := ask(h, "GET", u.host, "/v2/team/app/blobs/"+layer)
	if whole.Code != 200 || whole.Body.Len() < 1<<20 {
		t.Errorf("blob: %d, %d bytes", whole.Code, whole.Body.Len())
	}
	part := ask(h, "GET", u.host, "/v2/team/app/blobs/"+layer, "Range", "bytes=100-199")
	if part.Code != http.StatusPartialContent || part.Body.String() != whole.Body.String()[100:200] {
		t.Errorf("part of the blob: %d, %d bytes", part.Code, part.Body.Len())
	}
	for _, w := range []*httptest.ResponseRecorder{manifest, head, whole, part} {
		if text := fmt.Sprint(w.Header(), w.Body); strings.Contains(text, token) {
			t.Errorf("the login is in %.300s", text)
		}
	}
}

// TestRules checks which images a machine may pull with the server's login: the
// longest rule decides, and may require that the agent's person may use a git
// repository. Other images are pulled without a login.
func TestRules(t *testing.T) {
	u := newUpstream(t)
	for _, repository := range []string{"team/app", "team/theirs", "team/closed", "team/closed/open", "other/app", "public/app", "teams/app"} {
		u.push(t, repository)
	}
	h := u.server(
		Rule{Images: "team/*"}, Rule{Images: "team/closed", Repository: "https://git.test/team/closed"},
		Rule{Images: "team/theirs", Repository: "https://git.test/team/theirs"},
	).For(theirs(everywhere))
	for repository, want := range map[string]struct {
		status int
		login  bool // the registry got the login
	}{
		"team/app":         {200, true},
		"team/theirs":      {200, true},
		"team/closed":      {403, false},
		"team/closed/open": {200, true},
		"team/none":        {404, true},
		"other/app":        {403, false},
		"teams/app":        {403, false},
		"public/app":       {200, false},
	} {
		w := ask(h, "GET", u.host, "/v2/"+repository+"/manifests/1")
		login := slices.Contains(u.asked, "GET /v2/"+repository+"/manifests/1")
		if w.Code != want.status || login != want.login {
			t.Errorf("%s: status %d, with the login %v; want %d, %v: %s", repository, w.Code, login, want.status, want.login, w.Body)
		}
		if w.Code >= 400 && !strings.Contains(w.Body.String(), `"errors":[{"code":"`) {
			t.Errorf("%s: Docker cannot read the error %s", repository, w.Body)
		}
	}
}

// TestRefused checks that nothing else reaches the registry.
func TestRefused(t *testing.T) {
	u := newUpstream(t)
	layer := u.push(t, "team/app")
	s := u.server(Rule{Images: "*"})
	u.asked = nil
	const manifest = "/v2/team/app/manifests/1"
	deny := policy.Network{Mode: policy.AllowAll, Open: everywhere.Open, Deny: []string{"127.0.0.0/8"}}
	for name, c := range map[string]struct {
		network      policy.Network
		method, host string
		path         string
	}{
		"another registry":      {everywhere, "GET", "ghcr.io", manifest},
		"a push":                {everywhere, "POST", u.host, "/v2/team/app/blobs/uploads/"},
		"a deletion":            {everywhere, "DELETE", u.host, manifest},
		"a manifest is written": {everywhere, "PUT", u.host, manifest},
		"the catalog":           {everywhere, "GET", u.host, "/v2/_catalog"},
		"another repository":    {everywhere, "GET", u.host, "/v2/team/app/../../x/manifests/1"},
		"by an encoded path":    {everywhere, "GET", u.host, "/v2/team/app%2f..%2f..%2fx/manifests/1"},
		"of another case":       {everywhere, "GET", u.host, "/v2/Team/app/manifests/1"},
		"another digest":        {everywhere, "GET", u.host, "/v2/team/app/blobs/md5:" + layer},
		"an upload":             {everywhere, "GET", u.host, "/v2/team/app/blobs/uploads/1"},
		"no network":            {policy.Network{}, "GET", u.host, manifest},
		"mode none":             {policy.Network{Mode: policy.None}, "GET", u.host, manifest},
		"not on the list":       {policy.Network{Mode: policy.List, Allow: []string{"ghcr.io"}, Open: everywhere.Open}, "GET", u.host, manifest},
		"denied":                {deny, "GET", u.host, manifest},
		"always blocked":        {policy.Network{Mode: policy.AllowAll}, "GET", u.host, manifest},
	} {
		if w := ask(s.For(theirs(c.network)), c.method, c.host, c.path); w.Code < 400 || (c.method != "GET") != (w.Code == http.StatusMethodNotAllowed) {
			t.Errorf("%s: status %d", name, w.Code)
		}
	}
	if len(u.asked) > 0 {
		t.Errorf("the registry got %v", u.asked)
	}
}

// TestHosts checks which registries a machine is told of.
func TestHosts(t *testing.T) {
	rules := []Rule{{Images: "*"}}
	s := New(Config{Rules: map[string][]Rule{"docker.io": rules, "ghcr.io:443": rules, "registry.test:5000": rules, "quay.io": nil}})
	for want, network := range map[string]policy.Network{
		"[ghcr.io registry-1.docker.io registry.test:5000]": {Mode: policy.AllowAll},
		"[registry.test:5000]":                              {Mode: policy.List, Allow: []string{"*.test", "docker.io"}},
		"[]":                                                {},
	} {
		if got := fmt.Sprint(s.Hosts(network)); got != want {
			t.Errorf("%v: %s, want %s", network, got, want)
		}
	}
	if s := New(Config{Rules: map[string][]Rule{"ghcr.io": nil}}); s != nil || s.Hosts(everywhere) != nil || s.For(theirs(everywhere)) != nil {
		t.Error("a server without rules has registries")
	}
}

// TestHostileRegistry checks that a machine notices an incomplete blob, gets no
// text of the registry, and that the server follows no redirect into its own
// network.
func TestHostileRegistry(t *testing.T) {
	u := newUpstream(t)
	layer := u.push(t, "team/app")
	h := httptest.NewServer(u.server(Rule{Images: "*"}).For(theirs(everywhere)))
	t.Cleanup(h.Close)
	get := func(path string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = u.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(data), err
	}
	for name, c := range map[string]struct {
		path   string
		handle http.HandlerFunc
		status int // 0 if the response is incomplete
	}{
		"incomplete": {"/v2/team/app/blobs/" + layer, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, 0},
		"to the metadata": {"/v2/team/app/blobs/" + layer, http.RedirectHandler("http://169.254.169.254/latest", http.StatusTemporaryRedirect).ServeHTTP, 403},
		"its own words": {"/v2/team/app/manifests/1", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		}, 502},
		"a large manifest": {"/v2/team/app/manifests/1", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat(" ", 9<<20)) // the server hangs up
		}, 0},
	} {
		u.mu.Lock()
		u.before = c.handle
		u.mu.Unlock()
		status, body, err := get(c.path)
		if c.status == 0 && err == nil || c.status != 0 && (err != nil || status != c.status) || strings.Contains(body, "Basic") {
			t.Errorf("%s: status %d, %v: %.200s", name, status, err, body)
		}
	}
}

// TestCheck checks the names of images in rules.
func TestCheck(t *testing.T) {
	for images, ok := range map[string]bool{
		"*": true, "team/*": true, "team/app": true, "a/b/c-d_e.f": true,
		"": false, "team*": false, "*/app": false, "ghcr.io/": false, "/team": false, "Team": false, "team/app:1": false, "team/../x": false,
	} {
		if err := Check([]Rule{{Images: images}}); (err == nil) != ok {
			t.Errorf("%q: %v", images, err)
		}
	}
	if Check([]Rule{{Images: "team/app"}, {Images: "team/app", Repository: "https://git.test/x"}}) == nil {
		t.Error("two rules for the same images are accepted")
	}
}
