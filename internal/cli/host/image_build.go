package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/images"
	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image/debian"
	"aloft/internal/server"
)

// imageBuild holds the flags of aloft image build.
type imageBuild struct {
	dockerfile, context, target string
	args, secrets               []string
	noCache                     bool
	desktop, docker             bool

	packages, lock, suite, variant string
	mirrors                        []string
	epoch                          int64
}

// baseTime is the latest modification time of files in the base image, in Unix
// seconds, unless SOURCE_DATE_EPOCH is set. It is the date of the last change
// of the Debian release in the image.
const baseTime = 1_760_000_000

func newImageBuildCommand(a *app, f *imageFlags) *cobra.Command {
	var o imageBuild
	cmd := &cobra.Command{
		Use:   "build [NAME]",
		Short: "Build the default base image, or an image from a Dockerfile",
		Long: `Build an image and save it as local:NAME (default: local:base).

Without --dockerfile, build the default base with mmdebstrap: Debian with the tools
that agents need. With a --mirror of snapshot.debian.org, or with --lock, the build is
reproducible bit for bit; an image lists its exact packages in
/usr/share/aloft/packages.lock. Downloaded packages are kept for other builds, and an
interrupted download continues ("aloft image prune --build-cache" removes them).
--desktop adds a desktop with Chromium, about 0.9 GB;
--docker adds Docker and Docker Compose, about 0.4 GB.

With --dockerfile, build the Dockerfile as for an environment, with BuildKit or buildah,
whichever this host has (see "aloft doctor"), or with the engine in images.builder.`,
		Example: `  sudo aloft image build
  sudo aloft image build desktop --desktop
  sudo aloft image build docker --docker
  sudo aloft image build --mirror http://snapshot.debian.org/archive/debian/20260901T000000Z
  sudo aloft image build tools --dockerfile .aloft/Dockerfile --secret id=token,env=TOKEN`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "base"
			if len(args) == 1 {
				name = strings.TrimPrefix(args[0], "local:")
			}
			if o.dockerfile != "" {
				return a.buildDockerfile(cmd, f, o, name)
			}
			return a.buildBase(cmd, f, o, name)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dockerfile, "dockerfile", "", "Dockerfile to build; its `file` path's folder is the build context unless --context is set")
	flags.StringVar(&o.context, "context", "", "build context: the `folder` that COPY reads from and that contains the Dockerfile")
	flags.StringVar(&o.target, "target", "", "`stage` of the Dockerfile to build (default: the last)")
	flags.StringArrayVar(&o.args, "build-arg", nil, "`NAME=VALUE` for an ARG of the Dockerfile; may be repeated")
	flags.StringArrayVar(&o.secrets, "secret", nil, "secret for RUN --mount=type=secret: `id=ID,env=VARIABLE` or id=ID,src=FILE; may be repeated")
	flags.BoolVar(&o.noCache, "no-cache", false, "build every step without the cache")
	flags.StringVar(&o.packages, "packages", "", "`file` that lists the packages of the base, one per line")
	flags.BoolVar(&o.desktop, "desktop", false, "add a desktop to the base: VNC server, XFCE, Chromium")
	flags.BoolVar(&o.docker, "docker", false, "add Docker and Docker Compose to the base")
	flags.StringVar(&o.lock, "lock", "", "`file` with exact package versions, the packages.lock of an earlier image")
	flags.StringVar(&o.suite, "suite", images.Suite, "Debian `release` of the base")
	flags.StringVar(&o.variant, "variant", "minbase", "mmdebstrap `variant` to start from")
	flags.StringArrayVar(&o.mirrors, "mirror", nil, "`URL` of a Debian mirror, or a sources.list line; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("dockerfile", "desktop")
	cmd.MarkFlagsMutuallyExclusive("dockerfile", "docker")
	return cmd
}

func (a *app) buildBase(cmd *cobra.Command, f *imageFlags, o imageBuild, name string) error {
	s, _, err := f.open(a)
	if err != nil {
		return err
	}
	list := images.Packages
	if o.packages != "" {
		data, err := os.ReadFile(o.packages)
		if err != nil {
			return command.UsageError(err)
		}
		list = string(data)
	}
	if o.desktop {
		list += "\n" + images.Desktop
	}
	if o.docker {
		list += "\n" + images.Docker
	}
	packages, err := debian.ParsePackages(list)
	if err == nil && o.lock != "" {
		var lock []byte
		if lock, err = os.ReadFile(o.lock); err == nil {
			packages, err = debian.Lock(packages, lock)
		}
	}
	if err != nil {
		return command.UsageError(err)
	}
	o.epoch = baseTime
	if text := a.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		if _, err := fmt.Sscan(text, &o.epoch); err != nil {
			return command.UsageError(fmt.Errorf("invalid SOURCE_DATE_EPOCH %q: must be a number of seconds", text))
		}
	}
	if err := os.MkdirAll(filepath.Join(f.data, "build"), 0o700); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Join(f.data, "build"), "base-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	show := &buildProgress{out: a.Out, began: time.Now()}
	show.note(fmt.Sprintf("building local:%s: Debian %s with %d packages and what they need", name, o.suite, len(packages)))
	layout := filepath.Join(work, "layout")
	err = debian.Build(cmd.Context(), layout, debian.Options{
		Suite: o.suite, Variant: o.variant, Packages: packages, Mirrors: o.mirrors, Setup: images.Setup, Time: time.Unix(o.epoch, 0),
		Cache: server.PackagesDir(f.data),
	}, show.add)
	a.Out.Status("")
	if err != nil {
		for _, line := range show.last.lines {
			a.Out.Note("%s", cli.Line(line, 300))
		}
		return err
	}
	show.note("saving the image")
	progress, done := a.showProgress()
	img, err := s.Import(cmd.Context(), layout, name, progress)
	done()
	if err != nil {
		return err
	}
	return a.printImage("local:"+name, img)
}

// buildProgress shows the output of a build: in the status line, or, without
// one, as separate lines.
type buildProgress struct {
	out   *cli.Output
	began time.Time
	last  lastLines
	shown time.Time // time at which add last printed a line
}

// detailEvery is the minimum time between printed lines that are not a new
// step.
const detailEvery = 5 * time.Second

// add shows a line of output. It is called by one goroutine at a time.
func (p *buildProgress) add(line string) {
	p.last.add(line)
	p.out.Status(p.text(line))
	step := strings.HasPrefix(line, "I: ")
	if p.out.HasStatus() || !step && time.Since(p.shown) < detailEvery {
		return
	}
	p.shown = time.Now()
	p.note(strings.TrimPrefix(line, "I: "))
}

// note prints a line about a step.
func (p *buildProgress) note(text string) { p.out.Note("%s", p.text(text)) }

func (p *buildProgress) text(line string) string {
	return fmt.Sprintf("%s  %s", cli.Took(time.Since(p.began)), cli.Line(line, 100))
}

func (a *app) buildDockerfile(cmd *cobra.Command, f *imageFlags, o imageBuild, name string) error {
	s, c, err := f.open(a)
	if err != nil {
		return err
	}
	spec, err := o.spec(a.Getenv)
	if err != nil {
		return command.UsageError(err)
	}
	b, err := server.OpenBuilder(a.Embedded, f.data, c, c.Machine.Egress.Network(), s)
	if err != nil {
		return err
	}
	_, img, err := b.BuildAs(cmd.Context(), spec, name, func(line string) {
		if a.Out.JSON() {
			return
		}
		a.Out.Line("%s", cli.Line(line, 2000))
	})
	if err = errors.Join(err, b.Engine.Close()); err != nil {
		return err
	}
	return a.printImage("local:"+name, img)
}

// spec returns the Dockerfile build that the flags describe.
func (o imageBuild) spec(getenv func(string) string) (dockerfile.Spec, error) {
	root := o.context
	if root == "" {
		root = filepath.Dir(o.dockerfile)
	}
	file, err := filepath.Rel(root, o.dockerfile)
	if err != nil {
		return dockerfile.Spec{}, err
	}
	s := dockerfile.Spec{
		Root: root, Dockerfile: filepath.ToSlash(file), Context: ".", Target: o.target, NoCache: o.noCache,
		Args: map[string]string{}, Secrets: map[string]string{},
	}
	for _, arg := range o.args {
		k, v, ok := strings.Cut(arg, "=")
		if !ok || k == "" {
			return s, fmt.Errorf("invalid --build-arg %q: must be NAME=VALUE", arg)
		}
		s.Args[k] = v
	}
	for _, text := range o.secrets {
		fields := map[string]string{}
		for part := range strings.SplitSeq(text, ",") {
			k, v, _ := strings.Cut(part, "=")
			fields[k] = v
		}
		switch id := fields["id"]; {
		case id == "":
			return s, errors.New("invalid --secret: must be id=ID,env=VARIABLE or id=ID,src=FILE")
		case fields["env"] != "":
			if s.Secrets[id] = getenv(fields["env"]); s.Secrets[id] == "" {
				return s, fmt.Errorf("--secret %s: the variable %s is not set", id, fields["env"])
			}
		case fields["src"] != "":
			data, err := os.ReadFile(fields["src"])
			if err != nil {
				return s, fmt.Errorf("--secret %s: %w", id, err)
			}
			s.Secrets[id] = string(data)
		default:
			return s, fmt.Errorf("--secret %s: give env=VARIABLE or src=FILE", id)
		}
	}
	return s, nil
}
