// Package docker builds Dockerfiles with the HTTP API of Docker and Podman,
// over a unix socket or TCP. The API has no build secrets: builds with secrets
// are refused, and need BuildKit or buildah.
package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// Engine is a [dockerfile.Engine].
type Engine struct {
	base   string // prefix of URLs
	client *http.Client
}

var _ dockerfile.Engine = (*Engine)(nil)

// version is the API version to use. Docker supports it since 20.10, Podman
// since 4.
const version = "/v1.41"

// New returns the engine at an address in the form of DOCKER_HOST: unix:///PATH
// or tcp://HOST:PORT.
func New(address string) (*Engine, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("docker: %w", err)
	}
	switch u.Scheme {
	case "unix":
		t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}}
		return &Engine{"http://docker" + version, &http.Client{Transport: t}}, nil
	case "tcp", "http":
		return &Engine{"http://" + u.Host + version, &http.Client{}}, nil
	}
	return nil, fault.Invalid("docker: invalid address %q: use unix:///PATH or tcp://HOST:PORT", address)
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "docker" }

// Confines implements [dockerfile.Engine]. It returns false because the daemon
// has its own network.
func (e *Engine) Confines() bool { return false }

// Fetches implements [dockerfile.Engine]. The daemon fetches base images
// itself.
func (e *Engine) Fetches() bool { return true }

// HereDocuments implements [dockerfile.Engine]. Docker's API without BuildKit
// does not support them.
func (e *Engine) HereDocuments() bool { return false }

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error {
	e.client.CloseIdleConnections()
	return nil
}

// name is the name of the Dockerfile in the archive sent to the daemon. No file
// of a context has this name.
const name = ".aloft-dockerfile"

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	if len(job.Secrets) > 0 {
		return fault.Invalid("Docker's API does not support build secrets").Named("no_build_secrets").
			Hint("install buildah or BuildKit on the server, and set images.builder")
	}
	args, err := json.Marshal(job.Args)
	if err != nil {
		return err
	}
	podman, err := e.safe(ctx)
	if err != nil {
		return err
	}
	q := networkOf(job.Network, podman)
	for k, v := range map[string]string{"dockerfile": name, "buildargs": string(args), "forcerm": "1", "layers": "1"} {
		q.Set(k, v)
	}
	if job.Target != "" {
		q.Set("target", job.Target)
	}
	if job.NoCache {
		q.Set("nocache", "1")
	}
	auth, err := registryConfig(job.AuthFile)
	if err != nil {
		return err
	}
	body, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := send(w, job)
		_ = w.CloseWithError(err)
		sent <- err
	}()
	resp, err := e.do(ctx, http.MethodPost, "/build?"+q.Encode(), body, http.Header{"Content-Type": {"application/x-tar"}, "X-Registry-Config": {auth}})
	_ = body.Close() // stops send if the daemon did not read everything
	if sendErr := <-sent; err != nil {
		if sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
			return sendErr
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	id, err := follow(ctx, resp.Body, out)
	if err != nil {
		return err
	}
	// The image stays in the daemon as an untagged cache for the next build.
	return e.save(ctx, id, job)
}

// networkOf returns the API parameters for the network of RUN. Podman does not
// support Docker's value "none", so it gets its own parameter; otherwise it
// would use the host's network.
func networkOf(network string, podman bool) url.Values {
	if podman && network == dockerfile.None {
		return url.Values{"networkmode": {"NetworkDisabled"}, "nsoptions": {`[{"Name":"network"}]`}}
	}
	return url.Values{"networkmode": {network}}
}

// builtLine starts the last message of both daemons after a successful build.
const builtLine = "Successfully built "

// follow passes on the output of a build and returns the id of the image.
func follow(ctx context.Context, r io.Reader, out func(line string)) (id string, err error) {
	var steps dockerfile.Steps
	output, w := io.Pipe()
	lines := make(chan error, 1)
	go func() {
		lines <- dockerfile.Lines(output, func(line string) {
			if strings.Contains(line, "can't raise ambient capability") {
				return // RUN steps still have these capabilities
			}
			steps.See(line)
			if built, ok := strings.CutPrefix(line, builtLine); ok {
				id = built
			}
			out(line)
		})
	}()
	why := ""
	events := json.NewDecoder(r)
	for {
		var event struct{ Stream, Error, Status string }
		if err = events.Decode(&event); err != nil {
			break
		}
		if event.Status != "" {
			event.Stream = event.Status + "\n"
		}
		_, _ = io.WriteString(w, event.Stream)
		if event.Error != "" {
			why = event.Error
		}
	}
	_ = w.Close()
	<-lines
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case why != "":
		return "", &dockerfile.Failure{Step: steps.Last, Why: strings.TrimSpace(why)}
	case !errors.Is(err, io.EOF):
		return "", fmt.Errorf("docker: %w", err)
	case id == "":
		return "", errors.New("docker: the daemon did not report the id of the image")
	}
	return id, nil
}

// save writes the image as an OCI layout.
func (e *Engine) save(ctx context.Context, id string, job dockerfile.Job) error {
	resp, err := e.do(ctx, http.MethodGet, "/images/"+id+"/get", nil, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	file := filepath.Join(filepath.Dir(job.Dockerfile), "image.tar")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		return err
	}
	to, err := layout.Write(job.Output, empty.Index)
	if err != nil {
		return err
	}
	return to.AppendImage(img)
}

// Keeps implements [dockerfile.Engine].
func (e *Engine) Keeps() []string {
	return nil
}

// Prune implements [dockerfile.Engine]. It does nothing, because others may use
// the daemon's cache too.
func (e *Engine) Prune(context.Context) error { return nil }

// do sends a request to the daemon and turns an error response into an error.
func (e *Engine) do(ctx context.Context, method, path string, body io.Reader, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, e.base+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := e.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fault.Unavailable("the Docker daemon does not answer").Named("no_docker").Because(err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	var failure struct{ Message, Cause string }
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	if json.Unmarshal(data, &failure) != nil || failure.Message == "" {
		failure.Message = strings.TrimSpace(resp.Status + " " + string(data))
	}
	if method == http.MethodPost && resp.StatusCode != http.StatusNotFound {
		return nil, &dockerfile.Failure{Why: failure.Message} // the build did not even start
	}
	return nil, fmt.Errorf("docker: %s", failure.Message)
}

// registryConfig returns the header with the credentials of a config.json.
func registryConfig(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var config struct {
		Auths map[string]struct{ Auth, RegistryToken string }
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return "", err
	}
	type credential struct {
		Username      string `json:"username,omitempty"`
		Password      string `json:"password,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}
	out := map[string]credential{}
	for host, a := range config.Auths {
		c := credential{RegistryToken: a.RegistryToken}
		if plain, err := base64.StdEncoding.DecodeString(a.Auth); err == nil {
			c.Username, c.Password, _ = strings.Cut(string(plain), ":")
		}
		out[host] = c
	}
	data, err = json.Marshal(out)
	return base64.URLEncoding.EncodeToString(data), err
}

// send writes the context and the Dockerfile as a tar archive. It stores
// symbolic links as links and does not follow them.
func send(w io.Writer, job dockerfile.Job) error {
	var patterns []string
	if job.Ignore != "" {
		data, err := os.ReadFile(job.Ignore)
		if err != nil {
			return err
		}
		if patterns, err = ignorefile.ReadAll(bytes.NewReader(data)); err != nil {
			return err
		}
	}
	ignore, err := patternmatcher.New(patterns)
	if err != nil {
		return fault.Invalid(".dockerignore: %v", err)
	}
	root, err := os.OpenRoot(job.Context)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	out := tar.NewWriter(w)
	text, err := os.ReadFile(job.Dockerfile)
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." || path == name || path == ".dockerignore" {
			return err
		}
		skip, err := ignore.MatchesOrParentMatches(path)
		if err != nil {
			return err
		}
		if skip {
			if d.IsDir() && !ignore.Exclusions() {
				return fs.SkipDir
			}
			return nil
		}
		return sendOne(out, root, path, d)
	})
	return errors.Join(err, out.Close())
}

func sendOne(out *tar.Writer, root *os.Root, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	target := ""
	switch {
	case info.Mode().Type() == fs.ModeSymlink:
		if target, err = root.Readlink(path); err != nil {
			return err
		}
		// Skip a relative link that leads out of the context, because the
		// daemon would refuse the whole context for it.
		if !filepath.IsAbs(target) && !filepath.IsLocal(filepath.Join(filepath.Dir(path), target)) {
			return nil
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil // a socket, a pipe or a device
	}
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = path, 0, 0, "", ""
	if err := out.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return errors.Join(err, f.Close())
}
