package gateway_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

// world is an upstream, a gateway in front of it, and the gateway's log.
type world struct {
	*gittest.Server
	gw  *gateway.Gateway
	cfg gateway.Config
	log *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newWorld(t testing.TB, change ...func(*world)) *world {
	t.Helper()
	w := &world{Server: gittest.New(t), log: &syncBuffer{}}
	w.cfg = gateway.Config{
		Dir: t.TempDir(), Environ: []string{"PATH=" + os.Getenv("PATH")},
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(w)
	}
	w.open(t)
	return w
}

func (w *world) open(t testing.TB) {
	t.Helper()
	gw, err := gateway.New(w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.gw = gw
	t.Cleanup(func() {
		if err := gw.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// machine simulates a machine whose git can reach repositories only through the
// gateway.
type machine struct {
	t          testing.TB
	dir        string
	credential string
	addr       string
}

// machine creates a machine with a grant.
func (w *world) machine(t testing.TB, grant gateway.Grant) *machine {
	t.Helper()
	if grant.AgentID == "" {
		grant.AgentID, grant.RunID = "bc-1", "run-1"
	}
	credential, err := w.gw.Grant(grant)
	if err != nil {
		t.Fatal(err)
	}
	return w.machineWith(t, credential)
}

// machineWith creates a machine that uses the given credential, valid or not.
func (w *world) machineWith(t testing.TB, credential string) *machine {
	t.Helper()
	server := httptest.NewServer(w.gw)
	t.Cleanup(server.Close)
	return &machine{t, t.TempDir(), credential, server.URL}
}

// try runs git in a folder of the machine and returns its output.
func (m *machine) try(dir string, args ...string) (string, error) {
	m.t.Helper()
	base := []string{"-c", "http.extraHeader=Authorization: Bearer " + m.credential}
	for _, scheme := range []string{"http", "https", "ssh"} {
		base = append(base, "-c", "url."+m.addr+"/"+scheme+"/.insteadOf="+scheme+"://")
	}
	base = append(base, "-c", "url."+m.addr+"/file/.insteadOf=file:///")
	cmd := gittest.Command(m.t, filepath.Join(m.dir, dir), append(base, args...)...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) git(dir string, args ...string) string {
	m.t.Helper()
	out, err := m.try(dir, args...)
	if err != nil {
		m.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// fails runs git, which must fail with an output that contains each of the
// words.
func (m *machine) fails(dir string, args []string, words ...string) string {
	m.t.Helper()
	out, err := m.try(dir, args...)
	if err == nil {
		m.t.Fatalf("git %s succeeded:\n%s", strings.Join(args, " "), out)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			m.t.Fatalf("git %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// commit commits files in a clone and returns the commit id.
func (m *machine) commit(dir, message string, files map[string]string) string {
	m.t.Helper()
	gittest.Write(m.t, filepath.Join(m.dir, dir), files)
	m.git(dir, "add", "--all")
	m.git(dir, "commit", "--quiet", "-m", message)
	return m.git(dir, "rev-parse", "HEAD")
}

func oneRepo(url, branch string) gateway.Grant {
	return gateway.Grant{Repos: []string{url}, Push: map[string]string{url: branch}}
}
