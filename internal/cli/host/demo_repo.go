package host

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/gitcmd"
)

//go:embed demo
var demoFiles embed.FS

// demoRepo is a small project with a failing test, in a bare repository that git
// http-backend serves on loopback.
type demoRepo struct {
	URL    string
	dir    string // the bare repository
	server *http.Server
}

// newDemoRepo creates the repository below dir and serves it.
func newDemoRepo(dir string) (*demoRepo, error) {
	r := &demoRepo{dir: filepath.Join(dir, "git", "slug.git")}
	work := filepath.Join(dir, "slug")
	sample, err := fs.Sub(demoFiles, "demo/sample")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(work, sample); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", work},
		{"-C", work, "add", "-A"},
		{"-C", work, "-c", "user.name=Aloft", "-c", "user.email=aloft@localhost", "commit", "-q", "-m", "Turn titles into slugs"},
		{"clone", "-q", "--bare", work, r.dir},
		{"--git-dir", r.dir, "config", "http.receivepack", "true"},
	} {
		if _, err := git(args...); err != nil {
			return nil, err
		}
	}
	execPath, err := git("--exec-path")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r.URL = "http://" + l.Addr().String() + "/slug.git"
	r.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
		Handler: &cgi.Handler{
			Path:   filepath.Join(strings.TrimSpace(execPath), "git-http-backend"),
			Env:    append(gitcmd.Git{}.Environ(), "GIT_PROJECT_ROOT="+filepath.Dir(r.dir), "GIT_HTTP_EXPORT_ALL=1"),
			Logger: log.New(io.Discard, "", 0), Stderr: io.Discard,
		},
	}
	go func() { _ = r.server.Serve(l) }() // returns after Close
	return r, nil
}

// Diff returns the changes of branch since main.
func (r *demoRepo) Diff(branch string) (string, error) {
	return git("--git-dir", r.dir, "diff", "main..."+branch)
}

// Test runs the project's tests on branch and returns their output.
func (r *demoRepo) Test(branch, dir string) (string, error) {
	if _, err := git("clone", "-q", "-b", branch, r.dir, dir); err != nil {
		return "", err
	}
	out, err := exec.Command("make", "-s", "-C", dir, "test").CombinedOutput()
	return string(out), err
}

func (r *demoRepo) Close() error { return r.server.Close() }

// git runs git without the user's and the system's configuration.
func git(args ...string) (string, error) {
	out, err := gitcmd.Git{}.Command(context.Background(), args...).Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(e.Stderr)))
	}
	return string(out), err
}
