// Package gittest serves git repositories to tests as a forge does: git
// http-backend behind an HTTP server on loopback, with optional basic
// authentication, pushes enabled, and a log of all requests.
package gittest

import (
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aloft/internal/need"
)

// Server serves the bare repositories of a folder. Its methods are safe for
// concurrent use.
type Server struct {
	URL string // http://127.0.0.1:port
	Dir string // contains a folder NAME.git for each repository

	t testing.TB

	mu         sync.Mutex
	user, pass string
	requests   []Request
	intercept  http.HandlerFunc
	down       func(*http.Request) bool
	lfs        *LFS
}

// Request describes a request that the server has answered.
type Request struct {
	Method, Path, Query string
	Authorization       string
	Status              int
	Sent                int64 // size of the response body in bytes
}

// New starts a server without repositories. It stops when the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	git := need.Command(t, "git")
	s := &Server{Dir: t.TempDir(), t: t}
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: s.Dir,
		Env:    []string{"GIT_PROJECT_ROOT=" + s.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + globalConfig(t), "REMOTE_USER=pusher"},
		Stderr: io.Discard,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		s.serve(backend, rec, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, Request{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), rec.status, rec.sent})
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

func (s *Server) serve(backend http.Handler, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	user, pass, intercept, down, large := s.user, s.pass, s.intercept, s.down, s.lfs
	s.mu.Unlock()
	if down != nil && down(r) {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if intercept != nil {
		intercept(w, r)
		return
	}
	if u, p, _ := r.BasicAuth(); pass != "" && (u != user || p != pass) {
		w.Header().Set("WWW-Authenticate", `Basic realm="gittest"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if large != nil && strings.Contains(r.URL.Path, "/info/lfs/") {
		large.serve(s.t, s.URL, w, r)
		return
	}
	if r.TransferEncoding != nil { // CGI programs do not support chunked request bodies
		body, err := spool(s.t, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = body.Close() }()
		info, err := body.Stat()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = body, info.Size(), nil
	}
	if p := r.Header.Get("Git-Protocol"); p != "" {
		h := *backend.(*cgi.Handler)
		h.Env = append(h.Env[:len(h.Env):len(h.Env)], "GIT_PROTOCOL="+p)
		backend = &h
	}
	backend.ServeHTTP(w, r)
}

func spool(t testing.TB, r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(t.TempDir(), "body")
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(f, r); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// SetAuth makes the server require this name and password from now on. An empty
// password turns authentication off.
func (s *Server) SetAuth(user, pass string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.pass = user, pass
}

// Intercept makes h answer all requests from now on. If h is nil, git answers
// them again.
func (s *Server) Intercept(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = h
}

// Down makes the server reply to matching requests with 503. If match is nil,
// the server replies normally again.
func (s *Server) Down(match func(*http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = match
}

// Requests returns the requests since its last call.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

// Empty creates a repository without commits and returns its URL.
func (s *Server) Empty(name string) string {
	s.t.Helper()
	dir := s.Path(name)
	Git(s.t, s.Dir, "init", "--quiet", "--bare", "--initial-branch=main", dir)
	Git(s.t, dir, "config", "http.receivepack", "true")
	Git(s.t, dir, "config", "uploadpack.allowFilter", "true")
	return s.URL + "/" + name + ".git"
}

// Repo creates a repository with one commit of the given files (by path) on
// main, and returns its URL.
func (s *Server) Repo(name string, files map[string]string) string {
	s.t.Helper()
	url := s.Empty(name)
	s.Commit(name, "main", "first", files)
	return url
}

// Commit adds a commit of the files to a branch and returns its id. A missing
// branch is created from main.
func (s *Server) Commit(name, branch, message string, files map[string]string) string {
	s.t.Helper()
	work := s.t.TempDir()
	Git(s.t, work, "clone", "--quiet", s.Path(name), ".")
	if s.Branch(name, branch) != "" {
		Git(s.t, work, "checkout", "--quiet", branch)
	} else {
		Git(s.t, work, "checkout", "--quiet", "-B", branch)
	}
	Write(s.t, work, files)
	Git(s.t, work, "add", "--all")
	Git(s.t, work, "commit", "--quiet", "--allow-empty", "-m", message)
	Git(s.t, work, "push", "--quiet", "origin", branch)
	return Git(s.t, work, "rev-parse", "HEAD")
}

// Submodule adds a submodule at path to main of a repository. Its URL may be
// relative to the repository's.
func (s *Server) Submodule(name, path, url string) {
	s.t.Helper()
	work := s.t.TempDir()
	Git(s.t, work, "clone", "--quiet", s.URL+"/"+name+".git", ".")
	Git(s.t, work, "submodule", "--quiet", "add", url, path)
	Git(s.t, work, "commit", "--quiet", "-m", "Add "+path)
	Git(s.t, work, "push", "--quiet", "origin", "main")
}

// Path returns the folder of a repository.
func (s *Server) Path(name string) string { return filepath.Join(s.Dir, name+".git") }

// Branch returns the commit of a branch, or "".
func (s *Server) Branch(name, branch string) string {
	s.t.Helper()
	return Git(s.t, s.Path(name), "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// Hook installs a shell script as a hook of a repository.
func (s *Server) Hook(name, hook, script string) {
	s.t.Helper()
	path := filepath.Join(s.Path(name), "hooks", hook)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// Write writes files (by path) below dir.
func Write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Git runs git in dir without any user configuration, and returns its trimmed
// output. If git fails, the test fails.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	out, err := Command(t, dir, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Command returns a git command in dir, not yet started, as [Git] runs it.
func Command(t testing.TB, dir string, args ...string) *exec.Cmd {
	cmd := exec.Command(need.Command(t, "git"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+globalConfig(t), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@example.com", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@example.com")
	return cmd
}

var configs sync.Map // maps a testing.TB to a path

// globalConfig returns the path of a git configuration file that is removed
// when the test ends.
func globalConfig(t testing.TB) string {
	if path, ok := configs.Load(t); ok {
		return path.(string)
	}
	path := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(path, []byte("[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n[advice]\n\tdetachedHead = false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	configs.Store(t, path)
	t.Cleanup(func() { configs.Delete(t) })
	return path
}

// recorder records status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	sent   int64
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.sent += int64(n)
	return n, err
}
