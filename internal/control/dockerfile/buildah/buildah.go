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
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/dockerfile"
)

// Config is what an [Engine] is made of.
type Config struct {
	Path    string // of buildah
	Runtime string // path of the OCI runtime for RUN steps
	Dir     string // for what buildah keeps: base images and cached steps
}

// Engine is a [dockerfile.Engine].
type Engine struct{ conf Config }

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine, which makes its folder.
func New(conf Config) (*Engine, error) {
	for _, d := range []string{"root", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(conf.Dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("buildah: %w", err)
		}
	}
	return &Engine{conf}, nil
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildah" }

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error { return nil }

// policy lets buildah take images that nobody has signed, as every engine does.
const policy = `{"default":[{"type":"insecureAcceptAnything"}]}`

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	work := filepath.Dir(job.Dockerfile)
	files := map[string]string{"policy.json": policy, "registries.conf": registries(job.Insecure)}
	args := []string{
		"build", "--isolation", "oci", "--runtime", e.conf.Runtime, "--network", job.Network, "--format", "oci",
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
	var steps dockerfile.Steps
	why := ""
	id := filepath.Join(work, "image-id")
	err := e.run(ctx, append(args, "--iidfile", id, job.Context), work, func(line string) {
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
	if err := e.run(ctx, push, work, func(line string) { last = line }); err != nil {
		return fmt.Errorf("buildah push: %w: %s", err, last)
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

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(ctx context.Context) error {
	for _, args := range [][]string{{"rm", "--all"}, {"rmi", "--all", "--force"}} {
		var last string
		if err := e.run(ctx, args, "", func(line string) { last = line }); err != nil {
			return fmt.Errorf("buildah %s: %w: %s", args[0], err, last)
		}
	}
	return nil
}

// run runs buildah with PID and mount namespaces of its own: when it is killed,
// the kernel takes its steps and its mounts away with it.
func (e *Engine) run(ctx context.Context, args []string, work string, out func(line string)) error {
	return dockerfile.Run(ctx, e.command(args, work), syscall.SIGKILL, out)
}

func (e *Engine) command(args []string, work string) *exec.Cmd {
	driver := "overlay"
	var fs unix.Statfs_t
	if unix.Statfs(e.conf.Dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		driver = "vfs" // an overlay takes no upper layer on an overlay
	}
	global := []string{"--root", filepath.Join(e.conf.Dir, "root"), "--runroot", filepath.Join(e.conf.Dir, "run"), "--storage-driver", driver}
	all := slices.Concat([]string{"--fork", "--pid", "--kill-child", "--mount-proc", "--", e.conf.Path, args[0]}, global, args[1:])
	cmd := exec.Command("unshare", all...) //nolint:noctx // whoever runs it ends it with all that it started
	cmd.Dir = "/"
	// Nothing of the server's own environment: it may hold secrets.
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + e.conf.Dir, "TMPDIR=" + filepath.Join(e.conf.Dir, "tmp")}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
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
