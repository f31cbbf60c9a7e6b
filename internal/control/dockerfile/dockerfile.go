// Package dockerfile makes images of Dockerfiles with an engine that the host
// has, and takes them into the image store. It knows what a repository's
// Dockerfile may see, how the engine's words become a person's, and nothing of
// how any engine works: that is for the packages below this one, which
// dockerfiletest holds to these words.
//
// A Dockerfile is somebody's code, and so is all that an engine does for it. An
// engine that the server starts runs, with its steps, in a [Cell]: root there is
// nobody on the host, and sees the repository's own files and no others. What
// the Dockerfile says goes through a gate first, which refuses what it cannot tell
// the meaning of. What a build may reach is what a machine may: the engine itself,
// and not only its steps, runs behind a gateway.
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
	// Name is what a person calls it: buildkit, buildah, docker.
	Name() string
	// Build does the job, and hands each line that the engine or a step says to
	// out, at once, without its end, from one goroutine at a time. A step that
	// fails is a [*Failure]. When ctx ends, so does the build, with all that it
	// has started.
	Build(ctx context.Context, job Job, out func(line string)) error
	// Confines reports whether a build may have the network of machines, and
	// whether one that has it, or none, is held to that also where the engine itself
	// fetches something, as for ADD.
	Confines() bool
	// Fetches reports whether the engine fetches the images of FROM itself, and is
	// contained by whoever runs it; any other is given them, and runs in a [Cell].
	Fetches() bool
	// HereDocuments reports whether the engine knows RUN <<EOF.
	HereDocuments() bool
	// Keeps are the folders of this host in which the engine keeps what it works
	// on; none where that is a daemon's own affair.
	Keeps() []string
	// Prune removes what the engine keeps to build faster.
	Prune(ctx context.Context) error
	// Close ends what the engine has started.
	Close() error
}

// A Job is one build, made ready for an engine. All its paths are absolute.
type Job struct {
	Repository string            // whose the build is; what is kept for one is not another's
	FirstID    uint32            // the user of the host that root in the build's cell is; 0 where it has none
	Limits     Limits            // of the cell
	Work       string            // folder of the build's own, which its cell may write to
	Context    string            // folder
	Dockerfile string            // file, called Dockerfile, in Work
	Ignore     string            // file of the patterns that the context leaves out, in Work; "" for none
	Args       map[string]string // ARG
	Secrets    map[string]string // id to value, for RUN --mount=type=secret
	Target     string            // stage to build; "" is the last
	Network    string            // Machine, Host or None
	Policy     policy.Network    // of Machine
	Bases      []Base            // all the images of registries that it begins with or copies from
	NoCache    bool
	AuthFile   string // config.json as Docker has it, for an engine that fetches; "" for any other
	Output     string // folder in Work to write an OCI layout to, with one image; it is not there yet
}

// A Spec is an image that somebody wants. Paths are relative to Root, with
// slashes, and may not lead out of it, be it by links.
type Spec struct {
	Repository string            // whose the build is, such as its URL; Root unless given
	Root       string            // folder of the repository's checkout
	Dockerfile string            // path of it; or
	Contents   string            // its text
	Context    string            // path of a folder; "." is Root
	Args       map[string]string // ARG
	Secrets    map[string]string // id to value, for RUN --mount=type=secret
	Target     string            // stage to build; "" is the last
	NoCache    bool
	Policy     *policy.Network // what a machine of the same environment may reach; nil is the Builder's
}

// A Builder builds. Its fields are set before it is used, and its methods are
// safe for concurrent use.
type Builder struct {
	Engine   Engine
	Images   *image.Store
	Dir      string          // for what exists while a build runs
	Registry registry.Config // for FROM
	Network  string          // Machine (also if it is ""), Host or None
	Policy   policy.Network  // of Machine, where a Spec has none
	Limits   Limits
	MaxBase  int64 // bytes of one image of FROM, as the registry has it; 0 is no limit

	mu       sync.Mutex
	underWay map[string]*UnderWay
}

// A Failure is a step of a Dockerfile that did not end well.
type Failure struct {
	Line    int      // of the Dockerfile, from 1; 0 if it is not known
	Step    string   // the instruction
	Why     string   // such as: exit status 1
	Said    []string // the last lines of output
	Refused bool     // before anything was built
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

// Unwrap returns what a client is told.
func (f *Failure) Unwrap() error {
	code := "dockerfile_failed"
	if f.Refused {
		code = "dockerfile_refused"
	}
	return fault.Invalid("%s", f.Error()).Named(code)
}

// tail is how many lines of output a [Failure] keeps.
const tail = 20

// Build makes the image and takes it into the store. It returns the image and
// the name that [image.Store.Prepare] knows it by from then on. out gets each
// line as it is said; secrets stand in it as they were said, so redact it.
func (b *Builder) Build(ctx context.Context, spec Spec, out func(line string)) (name string, img image.Image, err error) {
	return b.build(ctx, spec, "", out)
}

// BuildAs is Build for an image that somebody gives a name, "local:NAME", and
// that stays until they take it back.
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
		why := fault.Exhausted("the build of the Dockerfile was ended after %s", limit).Named("build_time_limit").Hint("have it do less, or raise environments.install_limit")
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, why)
		defer cancel()
	}
	text, job, gate, why, err := b.prepare(spec, work)
	if err != nil {
		return "", img, err
	}
	release, err := b.fetch(ctx, job.Bases, gate)
	if err != nil {
		return "", img, err
	}
	defer release()
	if err := b.contain(ctx, &job, work); err != nil {
		return "", img, err
	}
	if why != "" {
		out("# RUN has no network: " + why)
	}
	var said []string
	err = b.Engine.Build(ctx, job, func(line string) {
		said = append(said, line)
		if len(said) > tail {
			said = said[1:]
		}
		out(line)
	})
	if err != nil && ctx.Err() != nil {
		return "", img, fmt.Errorf("build by %s: %w", b.Engine.Name(), context.Cause(ctx))
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		f.Said = said
		f.location(text)
		return "", img, f
	}
	if err != nil {
		return "", img, fmt.Errorf("build by %s: %w", b.Engine.Name(), err)
	}
	if as != "" {
		name = "local:" + as
		img, err = b.Images.Import(ctx, job.Output, as, nil)
	} else {
		name, img, err = b.Images.ImportBuilt(ctx, job.Output)
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("take the image: %w", context.Cause(ctx))
	}
	return name, img, err
}

// maxDockerfile is how long a Dockerfile or its list of what to ignore may be.
const maxDockerfile = 1 << 20

// prepare finds what the spec names, inside the repository, and writes what an
// engine reads by name into work. The gate is the one that the Dockerfile went
// through.
func (b *Builder) prepare(spec Spec, work string) (text string, job Job, g gate, why string, err error) {
	fail := func(err error) (string, Job, gate, string, error) { return "", Job{}, gate{}, "", err }
	root, err := os.OpenRoot(spec.Root)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = root.Close() }()
	if (spec.Dockerfile == "") == (spec.Contents == "") {
		return fail(fault.Invalid("a build has either a Dockerfile or its text"))
	}
	contextDir, err := within(root, spec.Context)
	if err != nil {
		return fail(err)
	}
	text = spec.Contents
	var ignore []byte
	if spec.Dockerfile != "" {
		data, err := read(root, spec.Dockerfile)
		if err != nil {
			return fail(err)
		}
		text = string(data)
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
	job = Job{
		Repository: repository, FirstID: first, Limits: b.Limits, Work: own, Context: contextDir,
		Args: spec.Args, Secrets: spec.Secrets, Target: spec.Target, NoCache: spec.NoCache,
		Dockerfile: filepath.Join(own, "dockerfile", "Dockerfile"), Output: filepath.Join(own, "image"),
	}
	g = gate{
		args: spec.Args, repository: repository, reference: b.fullName, documents: b.Engine.HereDocuments(), aliases: !b.Engine.Fetches(),
		source: func(name string) (string, error) { return inContext(contextDir, name) },
	}
	through, err := g.pass(text)
	if err != nil {
		return fail(err)
	}
	job.Bases = through.bases
	if job.Target != "" && !simple(job.Target) {
		return fail(fault.Invalid("target %q: the name of a stage has letters, digits and . _ -", job.Target))
	}
	job.Network, job.Policy, why = b.network(spec)
	if job.Network != Host && !(b.Engine.Confines() && job.Network == Machine) && FromNetwork(text) {
		return fail(fault.Denied("this Dockerfile fetches something by ADD of a URL, and has no network here").Named("dockerfile_network").
			Hint("fetch it in install, which runs in a machine and reaches what the environment may reach"))
	}
	for id := range spec.Secrets {
		if !simple(id) {
			return fail(fault.Invalid("secret %q: an id has letters, digits and . _ -", id))
		}
	}
	for _, d := range []string{own, filepath.Dir(job.Dockerfile)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return fail(err)
		}
	}
	if err := os.WriteFile(job.Dockerfile, []byte(through.text), 0o600); err != nil {
		return fail(err)
	}
	if ignore != nil {
		job.Ignore = job.Dockerfile + ".dockerignore"
		if err := os.WriteFile(job.Ignore, ignore, 0o600); err != nil {
			return fail(err)
		}
	}
	if b.Engine.Fetches() {
		job.AuthFile = filepath.Join(work, "config.json")
		err = os.WriteFile(job.AuthFile, authFile(b.Registry.Credentials), 0o600)
	}
	return text, job, g, why, err
}

// contain gives the build's files to its cell's root, unless the engine runs
// elsewhere. The context is a copy then, which the build may write to.
func (b *Builder) contain(ctx context.Context, job *Job, work string) error {
	if b.Engine.Fetches() {
		job.FirstID = 0
		return nil
	}
	if err := CanContain(); err != nil {
		return fault.NotImplemented("this server cannot build Dockerfiles: it has no user namespaces").Named("no_user_namespaces").
			Hint("run `aloft doctor` on the server: it says how to switch them on").Because(err)
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

// inContext is where a path of the context leads, behind its links, from there.
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

// simple reports whether a text has letters, digits and . _ - only.
func simple(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// within is the real path of a folder of the repository.
func within(root *os.Root, name string) (string, error) {
	name = path.Clean(name)
	dir, err := root.OpenRoot(name) // follows links, and none out of root
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
		err = errors.New("it is no file")
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
	return fault.Invalid("%s %s: it has to be in the repository, also behind its links", what, name).Named("dockerfile_path").Because(err)
}

// authFile is Docker's config.json with the credentials.
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
	data, _ := json.Marshal(map[string]any{"auths": auths}) // maps of strings
	return data
}
