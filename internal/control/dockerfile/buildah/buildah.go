// Package buildah builds Dockerfiles by Debian's buildah: a program without a
// daemon. RUN steps run in containers of an OCI runtime.
package buildah

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// Config is what an [Engine] is made of.
type Config struct {
	Path    string           // of buildah
	Runtime string           // path of the OCI runtime for RUN steps
	Dir     string           // for what buildah keeps: base images and cached steps
	Links   dockerfile.Links // nil where there can be none
}

// Engine is a [dockerfile.Engine].
type Engine struct {
	conf Config
	left atomic.Bool // builds that were killed may have left containers
}

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine, which makes its folder.
func New(conf Config) (*Engine, error) {
	for _, d := range []string{"root", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(conf.Dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("buildah: %w", err)
		}
	}
	e := &Engine{conf: conf}
	e.left.Store(true) // of a server that was killed
	return e, nil
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildah" }

// Confines implements [dockerfile.Engine]: buildah runs in the namespace of its
// steps, but while it pulls what they begin with.
func (e *Engine) Confines() bool { return e.conf.Links != nil }

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error { return nil }

// anySignature lets buildah take images that nobody has signed, as every engine does.
const anySignature = `{"default":[{"type":"insecureAcceptAnything"}]}`

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	if err := e.tidy(ctx); err != nil {
		return err
	}
	done, err := e.lock(unix.LOCK_SH)
	if err != nil {
		return err
	}
	err = e.build(ctx, job, out)
	done()
	if ctx.Err() != nil {
		e.left.Store(true)
		if err := e.tidy(context.WithoutCancel(ctx)); err != nil {
			out("# " + err.Error())
		}
	}
	return err
}

// lock has no build begin, or none be tidied away, until done.
func (e *Engine) lock(how int) (done func(), err error) {
	f, err := os.OpenFile(filepath.Join(e.conf.Dir, "builds.lock"), os.O_CREATE|os.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// tidyTime is how long it may take to remove what is left of builds.
const tidyTime = 2 * time.Minute

// tidy removes the containers that builds which were killed have left, with all
// that their steps had written, unless another build goes on: it is tried again.
func (e *Engine) tidy(ctx context.Context) error {
	if !e.left.Load() {
		return nil
	}
	done, err := e.lock(unix.LOCK_EX | unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	var last string
	if err := e.run(ctx, nil, []string{"rm", "--all"}, "", func(line string) { last = line }); err != nil {
		return fmt.Errorf("remove what is left of builds: %w: %s", err, last)
	}
	e.left.Store(false)
	return nil
}

func (e *Engine) build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	work := filepath.Dir(job.Dockerfile)
	network := "host" // of its own namespace, which is the server's, that of a link, or one that leads nowhere
	if job.Network == dockerfile.None {
		network = "none"
	}
	files := map[string]string{"policy.json": anySignature, "registries.conf": registries(job.Insecure)}
	args := []string{
		"build", "--isolation", "oci", "--runtime", e.conf.Runtime, "--network", network, "--format", "oci",
		"--layers", "--force-rm", "--signature-policy", filepath.Join(work, "policy.json"),
		"--file", job.Dockerfile, "--authfile", job.AuthFile,
	}
	if job.NoCache {
		args = append(args, "--no-cache")
	}
	if job.Target != "" {
		args = append(args, "--target", job.Target)
	}
	// Without a file of its own it would take the context's, which may be a link to anywhere.
	if job.Ignore == "" {
		files["ignore"] = ""
		args = append(args, "--ignorefile", filepath.Join(work, "ignore"))
	} else {
		args = append(args, "--ignorefile", job.Ignore)
	}
	for _, k := range slices.Sorted(maps.Keys(job.Args)) {
		args = append(args, "--build-arg", k+"="+job.Args[k])
	}
	for id, value := range job.Secrets {
		files["secret-"+id] = value
		args = append(args, "--secret", "id="+id+",src="+filepath.Join(work, "secret-"+id))
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	var enter []string
	if job.Network != dockerfile.Host {
		if err := e.pull(ctx, job, work, out); err != nil {
			return err
		}
		args = append(args, "--pull=false") // what is not known before comes by the link
		var link dockerfile.Link
		if job.Network == dockerfile.Machine {
			l, err := e.link(ctx, work, job)
			if err != nil {
				return err
			}
			link = l
			defer func() { _ = l.Close() }()
		}
		var err error
		if enter, err = dockerfile.ResolvConf(link, filepath.Join(work, "resolv.conf")); err != nil {
			return err
		}
	}
	var steps dockerfile.Steps
	why := ""
	id := filepath.Join(work, "image-id")
	err := e.run(ctx, enter, append(args, "--iidfile", id, job.Context), work, func(line string) {
		if strings.Contains(line, "can't raise ambient capability") {
			return // once for each, on hosts that keep a few from root: RUN steps have them all the same
		}
		steps.See(line)
		if text, ok := strings.CutPrefix(line, "error building at STEP "); ok {
			why = text
		}
		if text, ok := strings.CutPrefix(line, "Error: "); ok {
			why = text
		}
		out(line)
	})
	if _, exited := dockerfile.ExitStatus(err); exited && ctx.Err() == nil {
		return &dockerfile.Failure{Step: steps.Last, Why: reason(why, err)}
	}
	if err != nil {
		return err
	}
	// Built straight into a layout, the last step would not be cached.
	name, err := os.ReadFile(id)
	if err != nil {
		return err
	}
	push := []string{"push", "--quiet", "--disable-compression", "--signature-policy", filepath.Join(work, "policy.json"), strings.TrimSpace(string(name)), "oci:" + job.Output + ":latest"}
	var last string
	if err := e.run(ctx, nil, push, work, func(line string) { last = line }); err != nil {
		return fmt.Errorf("buildah push: %w: %s", err, last)
	}
	return nil
}

// link makes the network of one build.
func (e *Engine) link(ctx context.Context, work string, job dockerfile.Job) (dockerfile.Link, error) {
	dir := filepath.Join(work, "link")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return e.conf.Links(ctx, dir, job.Policy)
}

// pull brings the images that a build begins with from the server's own
// network: their registries are whoever the operator and the images' names say,
// and not what steps may reach.
func (e *Engine) pull(ctx context.Context, job dockerfile.Job, work string, out func(line string)) error {
	for _, ref := range job.Bases {
		var last string
		// One that is here is asked for again: its tag may have moved.
		args := []string{"pull", "--quiet", "--policy", "always", "--signature-policy", filepath.Join(work, "policy.json"), "--authfile", job.AuthFile, "docker://" + ref}
		err := e.run(ctx, nil, args, work, func(line string) { last = line })
		if _, exited := dockerfile.ExitStatus(err); exited && ctx.Err() == nil {
			out(last)
			return &dockerfile.Failure{Step: "FROM " + ref, Why: reason(strings.TrimPrefix(last, "Error: "), err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reason takes from buildah's last word what the step's own place does not say.
func reason(why string, err error) string {
	why = strings.TrimPrefix(why, "building at STEP ")
	if strings.HasPrefix(why, `"`) {
		if i := strings.Index(why, `": `); i > 0 {
			why = why[i+3:]
		}
	}
	if i := strings.LastIndex(why, "exit status "); i >= 0 && strings.Contains(why, "while running runtime") {
		why = why[i:]
	}
	if why == "" {
		return err.Error()
	}
	return why
}

// Keeps implements [dockerfile.Engine].
func (e *Engine) Keeps() []string {
	return []string{e.conf.Dir}
}

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(ctx context.Context) error {
	done, err := e.lock(unix.LOCK_EX | unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fault.Conflict("a Dockerfile is being built").Named("build_in_progress").Hint("try again when it is done")
	}
	if err != nil {
		return err
	}
	defer done()
	for _, args := range [][]string{{"rm", "--all"}, {"rmi", "--all", "--force"}} {
		var last string
		if err := e.run(ctx, nil, args, "", func(line string) { last = line }); err != nil {
			return fmt.Errorf("buildah %s: %w: %s", args[0], err, last)
		}
	}
	return nil
}

// run runs buildah with PID and mount namespaces of its own: when it is killed,
// the kernel takes its steps and its mounts away with it.
func (e *Engine) run(ctx context.Context, enter, args []string, work string, out func(line string)) error {
	return dockerfile.Run(ctx, e.command(enter, args, work), syscall.SIGKILL, out)
}

// command is a command of buildah. It is started by the command enter, in
// another network, unless that is nil.
func (e *Engine) command(enter, args []string, work string) *exec.Cmd {
	driver := "overlay"
	var fs unix.Statfs_t
	if unix.Statfs(e.conf.Dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		driver = "vfs" // an overlay takes no upper layer on an overlay
	}
	global := []string{"--root", filepath.Join(e.conf.Dir, "root"), "--runroot", filepath.Join(e.conf.Dir, "run"), "--storage-driver", driver}
	all := slices.Concat([]string{"--fork", "--pid", "--kill-child", "--mount-proc", "--", e.conf.Path, args[0]}, global, args[1:])
	all = append(slices.Clone(enter), append([]string{"unshare"}, all...)...)
	cmd := exec.Command(all[0], all[1:]...) //nolint:noctx // whoever runs it ends it with all that it started
	cmd.Dir = "/"
	// Nothing of the server's own environment: it may hold secrets.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + e.conf.Dir, "TMPDIR=" + filepath.Join(e.conf.Dir, "tmp")}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok && (enter == nil || strings.HasPrefix(name, "SSL")) { // the server's proxies are not a machine's
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	if work != "" {
		cmd.Env = append(cmd.Env, "CONTAINERS_REGISTRIES_CONF="+filepath.Join(work, "registries.conf"))
	}
	return cmd
}

// registries is a registries.conf in which a short name is Docker Hub's, as in
// Docker.
func registries(insecure []string) string {
	var b strings.Builder
	b.WriteString("unqualified-search-registries = [\"docker.io\"]\nshort-name-mode = \"disabled\"\n")
	for _, host := range append([]string{"localhost", "127.0.0.1"}, insecure...) {
		fmt.Fprintf(&b, "[[registry]]\nlocation = %q\ninsecure = true\n", host)
	}
	return b.String()
}

// Find returns the path of a buildah that works here, or why there is none.
func Find() (string, error) {
	path, err := exec.LookPath("buildah")
	if err != nil {
		return "", errors.New("buildah is not installed: apt-get install -y --no-install-recommends buildah")
	}
	return path, nil
}
