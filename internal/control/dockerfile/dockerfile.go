// Package dockerfile builds images from Dockerfiles with an engine installed on
// the host, and imports them into the image store. It decides what a
// repository's Dockerfile may see and turns an engine's messages into errors
// for people. The engines themselves are in the packages below this one;
// package dockerfiletest is their common test suite.
//
// A Dockerfile is untrusted code, and an engine acts on its behalf. An engine
// that the server starts runs in a [Cell] together with its steps: root there
// has no rights on the host and sees only the repository's own files. A gate
// rewrites the Dockerfile first, and refuses what it cannot interpret
// unambiguously. A build can reach the same hosts as a machine: the engine and
// its steps are behind an egress process.
package dockerfile

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"aloft/internal/control/image"
	"aloft/internal/control/image/registry"
	"aloft/internal/fault"
	"aloft/internal/policy"
)

// An Engine builds images. Its methods are safe for concurrent use.
type Engine interface {
	// Name returns the name for users: buildkit, buildah or docker.
	Name() string
	// Build runs the job. It passes each line of output to out, without its
	// line end, from one goroutine at a time. If a step fails, it returns a
	// [*Failure]. When ctx ends, it stops the build and all its processes.
	Build(ctx context.Context, job Job, out func(line string)) error
	// Confines reports whether a build can use the network of machines, and
	// whether that network's policy also applies to the engine's own downloads,
	// such as for ADD.
	Confines() bool
	// Fetches reports whether the engine fetches the images of FROM itself.
	// Such an engine is isolated by its operator. All other engines get the
	// images from the server and run in a [Cell].
	Fetches() bool
	// HereDocuments reports whether the engine supports RUN <<EOF.
	HereDocuments() bool
	// Keeps returns the folders of this host that hold the engine's caches and
	// working files, or none if a daemon manages them.
	Keeps() []string
	// Prune deletes the engine's caches.
	Prune(ctx context.Context) error
	// Close stops the processes that the engine has started.
	Close() error
}

// A Job is one build, prepared for an engine. All its paths are absolute.
type Job struct {
	Repository string            // owner of the build; caches are never shared between repositories
	FirstID    uint32            // the host's id for root in the build's cell; 0 if there is no cell
	Limits     Limits            // limits of the cell
	Work       string            // the build's own folder, writable in its cell
	Context    string            // folder of the build context
	Dockerfile string            // file named Dockerfile, in Work
	Ignore     string            // file in Work with the patterns to exclude from the context; "" for none
	Args       map[string]string // values for ARG
	Secrets    map[string]string // values by id, for RUN --mount=type=secret
	Target     string            // stage to build; "" means the last
	Network    string            // Machine, Host or None
	Policy     policy.Network    // policy, if Network is Machine
	Bases      []Base            // all registry images that the build starts or copies from
	NoCache    bool
	AuthFile   string // Docker's config.json, if the engine fetches images; otherwise ""
	Output     string // folder in Work for the resulting OCI layout with one image; it does not exist yet
}

// A Spec is a request to build an image. Its paths are relative to Root, use
// slashes, and must not lead out of Root, not even through links.
type Spec struct {
	Repository string            // owner of the build, such as the repository's URL; defaults to Root
	Root       string            // folder of the repository's checkout
	Source     *Source           `json:"-"` // if not nil, Root is ignored, and the build uses a copy of Source
	Dockerfile string            // path of the Dockerfile; or
	Contents   string            // its text
	Context    string            // path of the context folder; "." means Root
	Args       map[string]string // values for ARG
	Secrets    map[string]string // values by id, for RUN --mount=type=secret
	Target     string            // stage to build; "" means the last
	NoCache    bool
	Policy     *policy.Network // network policy of the environment's machines; nil means the Builder's
}

// A Builder builds images. Its fields are set before use, and its methods are
// safe for concurrent use.
type Builder struct {
	Engine   Engine
	Images   *image.Store
	Dir      string          // for the files of running builds
	Registry registry.Config // settings for fetching base images
	Network  string          // Machine (also if ""), Host or None
	Policy   policy.Network  // policy of the network Machine, if the Spec has none
	Limits   Limits
	MaxBase  int64 // maximum size in bytes of one base image as stored in the registry; 0 means no limit

	mu       sync.Mutex
	underWay map[string]*RunningBuild
}

// A Failure is a failed step of a Dockerfile.
type Failure struct {
	Line    int      // line of the Dockerfile, from 1; 0 if unknown
	Step    string   // the instruction
	Why     string   // for example: exit status 1
	Output  []string // the last lines of output
	Refused bool     // the Dockerfile was refused before the build started
}

func (f *Failure) Error() string {
	var b strings.Builder
	b.WriteString("Dockerfile")
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	if f.Step != "" {
		fmt.Fprintf(&b, ": %s", f.Step)
	}
	fmt.Fprintf(&b, ": %s", f.Why)
	return b.String()
}

// Unwrap returns the error as a fault for clients.
func (f *Failure) Unwrap() error {
	code := "dockerfile_failed"
	if f.Refused {
		code = "dockerfile_refused"
	}
	return fault.Invalid("%s", f.Error()).Named(code)
}

// tail is the number of output lines in a [Failure].
const tail = 20

// Build builds the image and imports it into the store. It returns the image
// and its name, which [image.Store.Prepare] accepts. out receives each line of
// output unchanged. Lines may contain secrets, so the caller must redact them.
func (b *Builder) Build(ctx context.Context, spec Spec, out func(line string)) (name string, img image.Image, err error) {
	return b.build(ctx, spec, "", out)
}

// BuildAs is like Build, but imports the image under a name chosen by a person,
// "local:NAME". The image is kept until that person removes it.
func (b *Builder) BuildAs(ctx context.Context, spec Spec, name string, out func(line string)) (string, image.Image, error) {
	return b.build(ctx, spec, name, out)
}

func (b *Builder) build(ctx context.Context, spec Spec, as string, out func(line string)) (name string, img image.Image, err error) {
	work, done, err := workDir(b.Dir)
	if err != nil {
		return "", img, err
	}
	defer func() { err = errors.Join(err, done()) }()
	ctx, end := b.begin(ctx, work)
	defer end()
	if limit := b.Limits.Time; limit > 0 {
		why := fault.Exhausted("the build of the Dockerfile timed out after %s", limit).Named("build_time_limit").Hint("make it do less, or raise environments.install_limit")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, why)
		defer cancel()
	}
	if spec.Source != nil {
		spec.Root = filepath.Join(work, "checkout")
		if err := spec.Source.Copy(ctx, spec.Root); err != nil {
			return "", img, err
		}
	}
	p, err := b.prepare(spec, work)
	if err != nil {
		return "", img, err
	}
	release, err := b.fetch(ctx, p.job.Bases, p.gate)
	if err != nil {
		return "", img, err
	}
	defer release()
	if err := b.contain(ctx, &p.job, work); err != nil {
		return "", img, err
	}
	if p.offline != "" {
		out("# RUN has no network: " + p.offline)
	}
	var last []string
	err = b.Engine.Build(ctx, p.job, func(line string) {
		last = append(last, line)
		if len(last) > tail {
			last = last[1:]
		}
		out(line)
	})
	if err != nil && ctx.Err() != nil {
		return "", img, fmt.Errorf("build by %s: %w", b.Engine.Name(), context.Cause(ctx))
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		f.Output = last
		f.location(p.text)
		return "", img, f
	}
	if err != nil {
		return "", img, fmt.Errorf("build by %s: %w", b.Engine.Name(), err)
	}
	if as != "" {
		name = "local:" + as
		img, err = b.Images.Import(ctx, p.job.Output, as, nil)
	} else {
		name, img, err = b.Images.ImportBuilt(ctx, p.job.Output)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("take the image: %w", context.Cause(ctx))
	}
	return name, img, err
}

// maxDockerfile is the maximum size in bytes of a Dockerfile or its
// .dockerignore.
const maxDockerfile = 1 << 20

// prepared is a build that the engine can start.
type prepared struct {
	text    string // instructions of the Dockerfile, as written
	job     Job
	gate    gate   // the gate that the Dockerfile has passed
	offline string // why RUN has no network although one is configured, or ""
}

// prepare resolves the paths of the spec inside the repository and writes the
// files for the engine into work.
func (b *Builder) prepare(spec Spec, work string) (p prepared, err error) {
	fail := func(err error) (prepared, error) { return prepared{}, err }
	root, err := os.OpenRoot(spec.Root)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = root.Close() }()
	if (spec.Dockerfile == "") == (spec.Contents == "") {
		return fail(fault.Invalid("give either the path of a Dockerfile or its text"))
	}
	contextDir, err := resolveFolder(root, spec.Context)
	if err != nil {
		return fail(err)
	}
	p.text = spec.Contents
	var ignore []byte
	if spec.Dockerfile != "" {
		data, err := read(root, spec.Dockerfile)
		if err != nil {
			return fail(err)
		}
		p.text = string(data)
		if ignore, err = read(root, spec.Dockerfile+".dockerignore"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(err)
		}
	}
	if ignore == nil {
		if ignore, err = read(root, path.Join(spec.Context, ".dockerignore")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(err)
		}
	}
	repository := cmp.Or(spec.Repository, spec.Root)
	_, first := cellOf(repository)
	own := filepath.Join(work, "work")
	p.job = Job{
		Repository: repository, FirstID: first, Limits: b.Limits, Work: own, Context: contextDir,
		Args: spec.Args, Secrets: spec.Secrets, Target: spec.Target, NoCache: spec.NoCache,
		Dockerfile: filepath.Join(own, "dockerfile", "Dockerfile"), Output: filepath.Join(own, "image"),
	}
	p.gate = gate{
		args: spec.Args, repository: repository, reference: b.fullName, documents: b.Engine.HereDocuments(), aliases: !b.Engine.Fetches(),
		source: func(name string) (string, error) { return inContext(contextDir, name) },
	}
	through, err := p.gate.pass(p.text)
	if err != nil {
		return fail(err)
	}
	p.job.Bases = through.bases
	if p.job.Target != "" && !simple(p.job.Target) {
		return fail(fault.Invalid("invalid target %q: use letters, digits and . _ -", p.job.Target))
	}
	p.job.Network, p.job.Policy, p.offline = b.network(spec)
	if p.job.Network != Host && !(b.Engine.Confines() && p.job.Network == Machine) && FromNetwork(p.text) {
		return fail(fault.Denied("this Dockerfile uses ADD with a URL, but its build has no network").Named("dockerfile_network").
			Hint("fetch it in install, which runs in a machine with the environment's network"))
	}
	for id := range spec.Secrets {
		if !simple(id) {
			return fail(fault.Invalid("invalid secret id %q: use letters, digits and . _ -", id))
		}
	}
	for _, d := range []string{own, filepath.Dir(p.job.Dockerfile)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fail(err)
		}
	}
	if err := os.WriteFile(p.job.Dockerfile, []byte(through.text), 0o600); err != nil {
		return fail(err)
	}
	if ignore != nil {
		p.job.Ignore = p.job.Dockerfile + ".dockerignore"
		if err := os.WriteFile(p.job.Ignore, ignore, 0o600); err != nil {
			return fail(err)
		}
	}
	if b.Engine.Fetches() {
		p.job.AuthFile = filepath.Join(work, "config.json")
		err = os.WriteFile(p.job.AuthFile, authFile(b.Registry.Credentials), 0o600)
	}
	return p, err
}

// contain changes the owner of the build's files to root of the build's cell,
// unless the engine runs elsewhere. It copies the context, because the build
// may write to it.
func (b *Builder) contain(ctx context.Context, job *Job, work string) error {
	if b.Engine.Fetches() {
		job.FirstID = 0
		return nil
	}
	if err := CanContain(); err != nil {
		return fault.NotImplemented("this server cannot build Dockerfiles: it has no user namespaces").Named("no_user_namespaces").
			Hint("run `aloft doctor` on the server: it says how to enable them").Because(err)
	}
	to := filepath.Join(work, "context")
	if err := copyContext(ctx, job.Context, to, job.FirstID); err != nil {
		return fmt.Errorf("copy the context: %w", err)
	}
	job.Context = to
	return filepath.WalkDir(job.Work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(job.FirstID), int(job.FirstID))
	})
}

// inContext resolves the symbolic links of a path in the context, and returns a
// path relative to the context.
func inContext(dir, name string) (string, error) {
	real, err := filepath.EvalSymlinks(filepath.Join(dir, path.Clean("/"+name)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("it is not in the context")
	}
	if err != nil {
		return "", errOut
	}
	rel, err := filepath.Rel(dir, real)
	if err != nil || !filepath.IsLocal(rel) {
		return "", errOut
	}
	return path.Clean("/" + rel), nil
}

// simple reports whether a text consists of letters, digits and . _ - only.
func simple(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// resolveFolder returns the real path of a folder of the repository.
func resolveFolder(root *os.Root, name string) (string, error) {
	name = path.Clean(name)
	dir, err := root.OpenRoot(name) // follows links, but not out of root
	if err != nil {
		return "", refused("context", name, err)
	}
	_ = dir.Close()
	top, err := filepath.Abs(root.Name())
	if err == nil {
		top, err = filepath.EvalSymlinks(top)
	}
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(filepath.Join(top, name))
	if err != nil {
		return "", err
	}
	if rel, err := filepath.Rel(top, real); err != nil || !filepath.IsLocal(rel) {
		return "", refused("context", name, errOut)
	}
	return real, nil
}

func read(root *os.Root, name string) ([]byte, error) {
	info, err := root.Stat(path.Clean(name))
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, refused("Dockerfile", name, err)
	}
	f, err := root.Open(path.Clean(name))
	if err != nil {
		return nil, refused("Dockerfile", name, err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxDockerfile+1))
	if err == nil && len(data) > maxDockerfile {
		err = fmt.Errorf("it is longer than %d MiB", maxDockerfile>>20)
	}
	return data, err
}

var errOut = errors.New("it leads out of the repository")

func refused(what, name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("%s %s is not in the repository", what, name).Named("dockerfile_not_found").
			Hint("paths in environment.json are relative to its folder").Because(fs.ErrNotExist)
	}
	return fault.Invalid("%s %s: it must be in the repository, with symbolic links resolved", what, name).Named("dockerfile_path").Because(err)
}

// authFile returns a config.json for Docker with the credentials.
func authFile(credentials map[string]registry.Credential) []byte {
	type auth struct {
		Auth          string `json:"auth,omitempty"`
		RegistryToken string `json:"registrytoken,omitempty"`
	}
	auths := map[string]auth{}
	for _, host := range slices.Sorted(maps.Keys(credentials)) {
		c := credentials[host]
		if host == "docker.io" || host == "index.docker.io" {
			host = "https://index.docker.io/v1/"
		}
		if c.Username == "" {
			auths[host] = auth{RegistryToken: c.Token}
			continue
		}
		auths[host] = auth{Auth: base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Token))}
	}
	data, _ := json.Marshal(map[string]any{"auths": auths}) // maps of strings always encode
	return data
}
