// Package buildkit builds Dockerfiles with BuildKit: either with a buildkitd
// that each build starts in its cell, or with a buildkitd that runs elsewhere
// and that its operator isolates.
package buildkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"aloft/internal/control/dockerfile"
)

// Config holds the settings of an [Engine].
type Config struct {
	Buildctl  string           // path of buildctl
	Buildkitd string           // path of the daemon to start; or
	Address   string           // address of a running daemon, as in BUILDKIT_HOST
	Runtime   string           // path of the OCI runtime, for the cell and for RUN steps inside it
	Dir       string           // folder for the caches of a daemon started here
	Links     dockerfile.Links // creates networks for that daemon; nil if networks are unavailable
}

// Engine is a [dockerfile.Engine].
type Engine struct{ conf Config }

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine. It refuses versions with known vulnerabilities that
// let a Dockerfile escape.
func New(conf Config) (*Engine, error) {
	program := conf.Buildkitd
	if conf.Address != "" {
		program = conf.Buildctl
	}
	if err := CheckVersion(program); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("buildkit: %w", err)
	}
	// Remove the folders of earlier versions, whose daemons ran as root of the
	// host.
	for _, d := range []string{"root", "linked-root", "link"} {
		if err := os.RemoveAll(filepath.Join(conf.Dir, d)); err != nil {
			return nil, fmt.Errorf("buildkit: %w", err)
		}
	}
	return &Engine{conf}, nil
}

var versionNumber = regexp.MustCompile(`v(\d+)\.(\d+)\.(\d+)`)

// oldest is the first version that fixes CVE-2024-23651, 23652 and 23653,
// through which mounts and a frontend could escape from a build.
var oldest = [3]int{0, 12, 5}

// CheckVersion refuses a BuildKit with known vulnerabilities.
func CheckVersion(path string) error {
	out, err := exec.Command(path, "--version").Output() //nolint:noctx // it only prints a line
	if err != nil {
		return fmt.Errorf("buildkit: %w", err)
	}
	m := versionNumber.FindStringSubmatch(string(out))
	if m == nil {
		return nil // a custom build may report no version
	}
	var is [3]int
	for i := range is {
		is[i], _ = strconv.Atoi(m[i+1]) // only digits
	}
	if slices.Compare(is[:], oldest[:]) < 0 {
		return fmt.Errorf("buildkit: %s is %s, which has known escapes from builds (CVE-2024-23651, CVE-2024-23652, CVE-2024-23653): install v%d.%d.%d or newer", path, m[0], oldest[0], oldest[1], oldest[2])
	}
	return nil
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildkit" }

// Confines implements [dockerfile.Engine]. The daemon itself runs in the link's
// network, and so do its downloads and steps.
func (e *Engine) Confines() bool { return e.conf.Links != nil && e.conf.Address == "" }

// Fetches implements [dockerfile.Engine].
func (e *Engine) Fetches() bool { return e.conf.Address != "" }

// HereDocuments implements [dockerfile.Engine].
func (e *Engine) HereDocuments() bool { return true }

// Keeps implements [dockerfile.Engine].
func (e *Engine) Keeps() []string {
	if e.conf.Address != "" {
		return nil
	}
	return []string{e.conf.Dir}
}

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(ctx context.Context) error {
	if e.conf.Address == "" {
		return dockerfile.PruneKept(e.conf.Dir)
	}
	var last string
	if err := dockerfile.Run(ctx, e.remote("prune", "--all"), syscall.SIGTERM, func(line string) { last = line }); err != nil {
		return fmt.Errorf("buildctl prune: %w: %s", err, last)
	}
	return nil
}

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error { return nil }

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	f := &dockerfile.Failure{}
	see := func(line string) {
		see(f, line)
		out(line)
	}
	var err error
	if e.conf.Address != "" {
		err = e.buildRemote(ctx, job, see)
	} else {
		err = e.buildHere(ctx, job, see)
	}
	if _, exited := dockerfile.ExitStatus(err); exited && ctx.Err() == nil && f.Why != "" {
		return f
	}
	return err
}

// daemon is the script run in a cell: it starts buildkitd and runs buildctl
// with the given arguments. The log of buildkitd goes to a file, whose end is
// printed if the daemon does not start.
const daemon = `buildkitd --rootless --config /work/buildkitd.toml --addr unix:///run/buildkitd.sock --root /kept/root \
	--oci-worker=true --containerd-worker=false --oci-worker-binary "$1" --oci-worker-net=host --oci-worker-no-process-sandbox=false \
	--allow-insecure-entitlement network.host --oci-worker-snapshotter "$2" >/work/buildkitd.log 2>&1 &
daemon=$!
shift 2
tries=0
until buildctl --addr unix:///run/buildkitd.sock debug workers >/dev/null 2>&1; do
	tries=$((tries + 1))
	if ! kill -0 $daemon 2>/dev/null || [ $tries = 600 ]; then
		tail -n 5 /work/buildkitd.log
		exit 125
	fi
	sleep 0.05
done
status=0
buildctl --addr unix:///run/buildkitd.sock "$@" || status=$?
kill $daemon
wait $daemon || true
exit $status`

func (e *Engine) buildHere(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	kept, clean, done, err := job.Keep(ctx, e.conf.Dir)
	if err != nil {
		return err
	}
	defer done(true)
	// A daemon killed during a build leaves the files of its steps behind, and
	// later daemons do not remove them. So delete the whole cache.
	root := filepath.Join(kept, "root")
	if !clean {
		if err := os.RemoveAll(root); err != nil {
			return err
		}
	}
	cell := dockerfile.Cell{Runtime: e.conf.Runtime, Programs: []string{e.conf.Runtime, e.conf.Buildctl, e.conf.Buildkitd}, Kept: kept, Job: job}
	if job.Network == dockerfile.Machine {
		dir := filepath.Join(filepath.Dir(job.Work), "link")
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		if cell.Link, err = e.conf.Links(ctx, dir, job.Policy); err != nil {
			return err
		}
		defer func() { _ = cell.Link.Close() }()
	}
	args, err := arguments(job, cell.Inside, dockerfile.InContext)
	if err != nil {
		return err
	}
	for i, b := range job.Bases {
		name := fmt.Sprintf("base%d", i)
		args = append(args, "--oci-layout", fmt.Sprintf("%s=%s/%d", name, dockerfile.InBases, i), "--opt", "context:"+familiar(b.As)+"=oci-layout://"+name+"@"+b.Digest)
	}
	for name, text := range map[string]string{"buildkitd.toml": "", "buildkitd.log": ""} {
		path := filepath.Join(job.Work, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Lchown(path, int(job.FirstID), int(job.FirstID))); err != nil {
			return err
		}
	}
	snapshotter := "overlayfs"
	var fs unix.Statfs_t
	if unix.Statfs(e.conf.Dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		snapshotter = "native" // an overlay cannot be the upper layer of another overlay
	}
	runtime := filepath.Join(dockerfile.InBin, filepath.Base(e.conf.Runtime))
	err = cell.Run(ctx, daemon, append([]string{runtime, snapshotter}, args...), out)
	if ctx.Err() != nil {
		err = errors.Join(err, os.RemoveAll(root))
	}
	return err
}

func (e *Engine) buildRemote(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	args, err := arguments(job, func(path string) string { return path }, job.Context)
	if err != nil {
		return err
	}
	cmd := e.remote(args...)
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+filepath.Dir(job.AuthFile))
	return dockerfile.Run(ctx, cmd, syscall.SIGTERM, out)
}

// familiar returns the short form of an image name, under which BuildKit looks
// up replacements.
func familiar(ref string) string {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "docker.io/"), "library/")
	return strings.TrimSuffix(ref, ":latest")
}

// arguments returns the arguments of buildctl. at maps host paths to the paths
// that buildctl sees. It also writes the files to which the arguments refer.
func arguments(job dockerfile.Job, at func(path string) string, context string) ([]string, error) {
	dir := filepath.Dir(job.Dockerfile)
	give := func(path, text string) error {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil || job.FirstID == 0 {
			return err
		}
		return os.Lchown(path, int(job.FirstID), int(job.FirstID))
	}
	if job.Ignore == "" {
		// If there were no file, BuildKit would read the one in the context,
		// which may be a link to any file.
		if err := give(job.Dockerfile+".dockerignore", ""); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(job.Output, 0o700); err != nil {
		return nil, err
	}
	if job.FirstID != 0 {
		if err := os.Lchown(job.Output, int(job.FirstID), int(job.FirstID)); err != nil {
			return nil, err
		}
	}
	mode := "host" // use the daemon's network: the server's, or a cell's, which may be isolated
	if job.Network == dockerfile.None && job.FirstID == 0 {
		mode = "none"
	}
	args := []string{
		"build", "--progress", "plain", "--frontend", "dockerfile.v0", "--local", "context=" + context,
		"--local", "dockerfile=" + at(dir), "--opt", "filename=" + filepath.Base(job.Dockerfile), "--opt", "force-network-mode=" + mode,
		"--output", "type=oci,tar=false,compression=uncompressed,dest=" + at(job.Output),
	}
	if mode == "host" {
		args = append(args, "--allow", "network.host")
	}
	if job.NoCache {
		args = append(args, "--no-cache")
	}
	if job.Target != "" {
		args = append(args, "--opt", "target="+job.Target)
	}
	for _, k := range slices.Sorted(maps.Keys(job.Args)) {
		args = append(args, "--opt", "build-arg:"+k+"="+job.Args[k])
	}
	for id, value := range job.Secrets {
		file := filepath.Join(job.Work, "secret-"+id)
		if err := give(file, value); err != nil {
			return nil, err
		}
		args = append(args, "--secret", "id="+id+",src="+at(file))
	}
	return args, nil
}

var (
	placeLine  = regexp.MustCompile(`^Dockerfile:(\d+)$`)
	errorLine  = regexp.MustCompile(`^error: failed to solve: (.*)$`)
	exitStatus = regexp.MustCompile(`^process ".*" did not complete successfully: exit code: (\d+)$`)
	parseLine  = regexp.MustCompile(`^dockerfile parse error on line (\d+): `)
)

// see extracts details of a failure from an output line.
func see(f *dockerfile.Failure, line string) {
	if m := placeLine.FindStringSubmatch(line); m != nil {
		f.Line, _ = strconv.Atoi(m[1]) // only digits
	}
	if m := errorLine.FindStringSubmatch(line); m != nil {
		f.Why = m[1]
		if p := parseLine.FindStringSubmatch(f.Why); p != nil {
			f.Line, _ = strconv.Atoi(p[1])
		}
		if s := exitStatus.FindStringSubmatch(f.Why); s != nil {
			f.Why = "exit status " + s[1]
		}
	}
}

// remote returns a buildctl command for a daemon that runs elsewhere. Of the
// server's environment it gets only the proxy settings, since other variables
// may hold secrets.
func (e *Engine) remote(args ...string) *exec.Cmd {
	cmd := exec.Command(e.conf.Buildctl, append([]string{"--addr", e.conf.Address}, args...)...) //nolint:noctx // the caller stops it
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/nonexistent"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	return cmd
}
