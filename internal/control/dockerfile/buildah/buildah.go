// Package buildah builds Dockerfiles with Debian's buildah, a program without a
// daemon. buildah runs in a cell, and executes RUN steps in containers inside
// the cell. Old versions of buildah follow links out of the build's files, but
// no file that is visible in a cell is secret.
package buildah

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
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/dockerfile"
)

// Config holds the settings of an [Engine].
type Config struct {
	Path    string           // path of buildah, below /usr
	Runtime string           // path of the OCI runtime, for the cell and for RUN steps inside it
	Dir     string           // folder for buildah's caches: base images and build steps
	Links   dockerfile.Links // creates networks for builds; nil if networks are unavailable
}

// Engine is a [dockerfile.Engine].
type Engine struct {
	conf      Config
	documents bool
}

var _ dockerfile.Engine = (*Engine)(nil)

// New returns the engine and creates its folder.
func New(conf Config) (*Engine, error) {
	if !strings.HasPrefix(conf.Path, "/usr/") {
		return nil, fmt.Errorf("buildah: %s is not below /usr, the only folder of the host that builds can see", conf.Path)
	}
	if err := os.MkdirAll(conf.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("buildah: %w", err)
	}
	// Remove the store of earlier versions, which all builds shared and root
	// owned.
	for _, d := range []string{"root", "run", "tmp", "builds.lock"} {
		if err := os.RemoveAll(filepath.Join(conf.Dir, d)); err != nil {
			return nil, fmt.Errorf("buildah: %w", err)
		}
	}
	major, minor, err := version(conf.Path)
	if err != nil {
		return nil, err
	}
	return &Engine{conf, major > 1 || minor >= 33}, nil
}

var versionLine = regexp.MustCompile(`(\d+)\.(\d+)`)

// version returns the version that a buildah program reports.
func version(path string) (major, minor int, err error) {
	out, err := exec.Command(path, "--version").Output() //nolint:noctx // it only prints a line
	if err != nil {
		return 0, 0, fmt.Errorf("buildah: %w", err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return 0, 0, fmt.Errorf("buildah: cannot parse the version %q", out)
	}
	major, err = strconv.Atoi(m[1])
	if err == nil {
		minor, err = strconv.Atoi(m[2])
	}
	return major, minor, err
}

// Name implements [dockerfile.Engine].
func (e *Engine) Name() string { return "buildah" }

// Confines implements [dockerfile.Engine]: buildah runs in the namespace of its
// steps.
func (e *Engine) Confines() bool { return e.conf.Links != nil }

// Fetches implements [dockerfile.Engine].
func (e *Engine) Fetches() bool { return false }

// HereDocuments implements [dockerfile.Engine]: buildah supports them since
// version 1.33.
func (e *Engine) HereDocuments() bool { return e.documents }

// Close implements [dockerfile.Engine].
func (e *Engine) Close() error { return nil }

// Keeps implements [dockerfile.Engine].
func (e *Engine) Keeps() []string { return []string{e.conf.Dir} }

// Prune implements [dockerfile.Engine].
func (e *Engine) Prune(context.Context) error { return dockerfile.PruneKept(e.conf.Dir) }

// Build implements [dockerfile.Engine].
func (e *Engine) Build(ctx context.Context, job dockerfile.Job, out func(line string)) error {
	kept, clean, done, err := job.Keep(ctx, e.conf.Dir)
	if err != nil {
		return err
	}
	cell := dockerfile.Cell{
		Runtime: e.conf.Runtime, Programs: []string{e.conf.Runtime}, Kept: kept, Job: job,
		Env: []string{"TMPDIR=" + dockerfile.InKept + "/tmp", "STORAGE=" + e.storage(), "_CONTAINERS_USERNS_CONFIGURED=done"},
	}
	if !clean {
		err = script(ctx, cell, tidy)
	}
	if err == nil {
		err = e.build(ctx, cell, out)
	}
	clean = true
	if ctx.Err() != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		if tidyErr := script(ctx, cell, tidy); tidyErr != nil {
			clean = false
			out("# " + tidyErr.Error())
		}
	}
	done(clean)
	return err
}

// tidyTime is the timeout for removing an interrupted build's leftovers.
const tidyTime = 2 * time.Minute

// script runs a command in the cell. It discards the output unless the command
// fails.
func script(ctx context.Context, cell dockerfile.Cell, text string, args ...string) error {
	var last string
	if err := cell.Run(ctx, text, args, func(line string) { last = line }); err != nil {
		return fmt.Errorf("buildah: %w: %s", err, last)
	}
	return nil
}

// The commands of one build. All of them use storage below InKept, which holds
// only the images that FROM names.
const (
	tidy = `buildah $STORAGE rm --all >/dev/null
`
	pull = `mkdir -p "$TMPDIR"
id=$(buildah $STORAGE pull --quiet "oci:$1")
buildah $STORAGE tag "$id" "$2"
`
	build = `mkdir -p "$TMPDIR"
command=$1; shift
exec buildah "$command" $STORAGE "$@"
`
)

func (e *Engine) build(ctx context.Context, cell dockerfile.Cell, out func(line string)) error {
	job := cell.Job
	for i, b := range job.Bases {
		if err := script(ctx, cell, pull, fmt.Sprintf("%s/%d", dockerfile.InBases, i), b.As); err != nil {
			return err
		}
	}
	args, err := e.arguments(cell, job)
	if err != nil {
		return err
	}
	if job.Network == dockerfile.Machine {
		l, err := e.link(ctx, job)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		cell.Link = l
	}
	var steps dockerfile.Steps
	why := ""
	err = cell.Run(ctx, build, args, func(line string) {
		if strings.Contains(line, "can't raise ambient capability") {
			return // buildah prints this for each capability that the host drops from root, but RUN steps still have the capability
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
	// If the build wrote the layout directly, its last step would not be cached.
	return script(ctx, cell, `buildah $STORAGE push --quiet --disable-compression "$(cat "$1")" "oci:$2:latest" >/dev/null`, cell.Inside(e.imageID(job)), cell.Inside(job.Output))
}

// storage returns the flags for buildah's image and container storage,
// separated by spaces for use in a shell.
func (e *Engine) storage() string {
	driver := "overlay"
	var fs unix.Statfs_t
	if unix.Statfs(e.conf.Dir, &fs) == nil && fs.Type == unix.OVERLAYFS_SUPER_MAGIC {
		driver = "vfs" // an overlay cannot be the upper layer of another overlay
	}
	return "--root " + dockerfile.InKept + "/root --runroot /run/buildah --storage-driver " + driver
}

func (e *Engine) imageID(job dockerfile.Job) string { return filepath.Join(job.Work, "image-id") }

// arguments returns the arguments of the build script, and writes the files
// that they refer to.
func (e *Engine) arguments(cell dockerfile.Cell, job dockerfile.Job) ([]string, error) {
	args := []string{
		"build", "--isolation", "oci", "--runtime", filepath.Join(dockerfile.InBin, filepath.Base(e.conf.Runtime)),
		"--network", "host", // the cell's network namespace: the server's, a link's, or an isolated one
		"--format", "oci", "--layers", "--force-rm", "--pull-never", "--file", cell.Inside(job.Dockerfile), "--iidfile", cell.Inside(e.imageID(job)),
	}
	if job.NoCache {
		args = append(args, "--no-cache")
	}
	if job.Target != "" {
		args = append(args, "--target", job.Target)
	}
	files := map[string]string{}
	// If there were no file, buildah would read the one in the context, which
	// may be a link to any file.
	ignore := job.Ignore
	if ignore == "" {
		ignore = filepath.Join(job.Work, "ignore")
		files["ignore"] = ""
	}
	args = append(args, "--ignorefile", cell.Inside(ignore))
	for _, k := range slices.Sorted(maps.Keys(job.Args)) {
		args = append(args, "--build-arg", k+"="+job.Args[k])
	}
	for id, value := range job.Secrets {
		files["secret-"+id] = value
		args = append(args, "--secret", "id="+id+",src="+cell.Inside(filepath.Join(job.Work, "secret-"+id)))
	}
	for name, text := range files {
		path := filepath.Join(job.Work, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Lchown(path, int(job.FirstID), int(job.FirstID))); err != nil {
			return nil, err
		}
	}
	return append(args, dockerfile.InContext), nil
}

// link creates the network of one build.
func (e *Engine) link(ctx context.Context, job dockerfile.Job) (dockerfile.Link, error) {
	dir := filepath.Join(filepath.Dir(job.Work), "link")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return e.conf.Links(ctx, dir, job.Policy)
}

// reason removes from buildah's last message the text that the failure's step
// already contains.
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

// Find returns the path of a usable buildah, or an error that says why none is
// usable.
func Find() (string, error) {
	path, err := exec.LookPath("buildah")
	if err != nil {
		return "", errors.New("buildah is not installed: apt-get install -y --no-install-recommends buildah")
	}
	return path, nil
}
