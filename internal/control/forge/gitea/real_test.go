//go:build forges

package gitea

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/forgetest"
	"aloft/internal/need"
)

// TestRealGitea runs the suite against a real Gitea, built by
// hack/build-gitea.sh, with branches pushed by git.
func TestRealGitea(t *testing.T) {
	g := startGitea(t)
	var made atomic.Int32
	forgetest.Run(t, func(t *testing.T) forgetest.Host { return g.host(t, fmt.Sprintf("widget-%d", made.Add(1))) })
	for scopes, lacks := range map[string][]string{
		"write:repository,write:issue": nil, "write:repository": {"write:issue"}, "read:repository,read:user": {"write:repository", "write:issue"},
	} {
		out := g.run("admin", "user", "generate-access-token", "--username", "bot", "--token-name", scopes, "--scopes", scopes, "--raw")
		lines := strings.Fields(out)
		f, err := New(forge.Options{API: g.url + "/api/v1", Tokens: forge.Token(lines[len(lines)-1])})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"bot/widget-1", "nobody/nothing"} {
			if got, err := f.Examine(t.Context(), forge.Repo{Host: "gitea", Path: path}); err != nil || !slices.Equal(got.Lacks, lacks) || (got.Login == "bot") != strings.Contains(scopes, "user") {
				t.Errorf("a token of %s, in %s: %+v, %v", scopes, path, got, err)
			}
		}
	}
}

// giteaServer is a Gitea with two users, bot and ada.
type giteaServer struct {
	url, dir string
	bot, ada string // the users' tokens
	run      func(args ...string) string
}

func startGitea(t *testing.T) *giteaServer {
	static, err := filepath.Abs("../../../../.bin/gitea")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(static, "gitea")
	need.File(t, "gitea", program)
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	me, err := osuser.Current()
	if err != nil {
		t.Fatal(err)
	}
	// Gitea listens on a unix socket, so that the test needs no free port.
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", "gitea", r.In.Host
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	})
	t.Cleanup(front.Close)
	config := filepath.Join(dir, "app.ini")
	ini := fmt.Sprintf(`APP_NAME = test
RUN_MODE = prod
RUN_USER = %s
WORK_PATH = %s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = http+unix
HTTP_ADDR = %s
ROOT_URL = %s/
LOCAL_ROOT_URL = %[4]s/
STATIC_ROOT_PATH = %s
OFFLINE_MODE = true
DISABLE_SSH = true
[database]
DB_TYPE = sqlite3
PATH = %[2]s/gitea.db
SQLITE_JOURNAL_MODE = WAL
[security]
INSTALL_LOCK = true
SECRET_KEY = only-a-test
PASSWORD_HASH_ALGO = pbkdf2_v2
[repository]
ROOT = %[2]s/repos
DEFAULT_BRANCH = main
[log]
MODE = console
LEVEL = warn
[mailer]
ENABLED = false
`, me.Username, dir, socket, front.URL, static)
	if err := os.WriteFile(config, []byte(ini), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"--config", config}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "GITEA_WORK_DIR="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("gitea %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	run("migrate")
	g := &giteaServer{url: front.URL, dir: dir, run: run}
	for name, token := range map[string]*string{"bot": &g.bot, "ada": &g.ada} {
		out := run("admin", "user", "create", "--username", name, "--email", name+"@forge.test", "--random-password", "--must-change-password=false", "--access-token")
		_, after, ok := strings.Cut(out, "Access token was successfully created... ")
		if !ok {
			t.Fatalf("no token for %s:\n%s", name, out)
		}
		*token = strings.Fields(after)[0]
	}
	var log bytes.Buffer
	server := exec.Command(program, "--config", config, "web")
	server.Env = append(os.Environ(), "HOME="+dir, "GITEA_WORK_DIR="+dir)
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = server.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("gitea said:\n%s", log.String())
		}
	})
	for tick := time.Tick(50 * time.Millisecond); ; {
		if res, err := http.Get(g.url + "/api/v1/version"); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return g
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("gitea ended: %v\n%s", err, log.String())
		case <-t.Context().Done():
			t.Fatal("gitea does not answer")
		case <-tick:
		}
	}
}

// api sends a request as a user. It fails the test unless the request succeeds.
func (g *giteaServer) api(t testing.TB, token, method, path string, in any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, g.url+"/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode > 299 {
		words, _ := io.ReadAll(res.Body)
		t.Fatalf("%s %s: %s: %s", method, path, res.Status, words)
	}
}

// host returns a new repository that bot owns and to which ada may write.
func (g *giteaServer) host(t *testing.T, name string) forgetest.Host {
	u, err := url.Parse(g.url)
	if err != nil {
		t.Fatal(err)
	}
	g.api(t, g.bot, http.MethodPost, "/user/repos", map[string]any{"name": name, "auto_init": true, "default_branch": "main"})
	g.api(t, g.bot, http.MethodPut, "/repos/bot/"+name+"/collaborators/ada", map[string]any{"permission": "write"})
	dir := t.TempDir()
	remote := fmt.Sprintf("http://bot:%s@%s/bot/%s.git", g.bot, u.Host, name)
	git := func(t testing.TB, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@forge.test"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git(t, "clone", "-q", remote, ".")
	made := 0
	at := func(t testing.TB, token string) forge.Forge {
		f, err := New(forge.Options{API: g.url + "/api/v1", Tokens: forge.Token(token)})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	opened := 0
	return forgetest.Host{
		Forge: at(t, g.bot), Repo: forge.Repo{Host: u.Host, Path: "bot/" + name}, Reviewer: "ada", Token: at, NoReply: true,
		Push: func(t testing.TB, branch string) string {
			made++
			if _, err := os.Stat(filepath.Join(dir, ".git/refs/heads", branch)); err == nil {
				git(t, "checkout", "-q", branch)
			} else {
				git(t, "checkout", "-q", "-b", branch, "main")
			}
			if err := os.WriteFile(filepath.Join(dir, "file"), fmt.Append(nil, made), 0o600); err != nil {
				t.Fatal(err)
			}
			git(t, "add", "file")
			git(t, "commit", "-q", "-m", "change")
			git(t, "push", "-q", "origin", branch)
			return git(t, "rev-parse", "HEAD")
		},
		Check: func(t testing.TB, commit, name2 string, s forge.CheckState) {
			g.api(t, g.ada, http.MethodPost, "/repos/bot/"+name+"/statuses/"+commit, map[string]any{"context": name2, "state": string(s), "target_url": "https://ci.test/1"})
		},
		Say: func(t testing.TB, number int, body string) {
			g.api(t, g.ada, http.MethodPost, fmt.Sprintf("/repos/bot/%s/issues/%d/comments", name, number), map[string]any{"body": body})
		},
		OpenIssue: func(t testing.TB, title, body string) int {
			g.api(t, g.ada, http.MethodPost, fmt.Sprintf("/repos/bot/%s/issues", name), map[string]any{"title": title, "body": body})
			opened++
			return opened // the repository has no other entries
		},
		SayAtIssue: func(t testing.TB, number int, body string) {
			g.api(t, g.ada, http.MethodPost, fmt.Sprintf("/repos/bot/%s/issues/%d/comments", name, number), map[string]any{"body": body})
		},
		SayOn: func(t testing.TB, number int, path string, line int, body string) {
			g.api(t, g.ada, http.MethodPost, fmt.Sprintf("/repos/bot/%s/pulls/%d/reviews", name, number), map[string]any{
				"event": "COMMENT", "comments": []any{map[string]any{"path": path, "body": body, "new_position": line}},
			})
		},
		SubmitReview: func(t testing.TB, number int, verdict forge.ReviewVerdict, body string) {
			event := map[forge.ReviewVerdict]string{forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES"}[verdict]
			g.api(t, g.ada, http.MethodPost, fmt.Sprintf("/repos/bot/%s/pulls/%d/reviews", name, number), map[string]any{"event": event, "body": body})
		},
	}
}
