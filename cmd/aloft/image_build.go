package main

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
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image/debian"
)

// imageBuild is what aloft image build is told.
type imageBuild struct {
	dockerfile, context, target string
	args, secrets               []string
	noCache                     bool
	desktop                     bool

	packages, lock, suite, variant string
	mirrors                        []string
	epoch                          int64
}

// baseTime is what the times in the base image are cut to unless
// SOURCE_DATE_EPOCH says otherwise: that of the Debian release's last change of
// ours.
const baseTime = 1_760_000_000

func newImageBuildCommand(a *app, f *imageFlags) *cobra.Command {
	var o imageBuild
	cmd := &cobra.Command{
		Use:   "build [NAME]",
		Short: "Build the default base image, or one of a Dockerfile",
		Long: `Build an image and keep it as local:NAME; NAME is base unless given.

Without --dockerfile it is the default base: Debian with the tools that agents want,
by mmdebstrap. With a --mirror of snapshot.debian.org, or with --lock, the same
command makes the same image, bit by bit; the exact packages of an image are in its
/usr/share/aloft/packages.lock. With --desktop it has one for machines, with
Chromium, which makes it about 0.9 GB larger.

With --dockerfile it is built by BuildKit, buildah, Docker or Podman, whichever is here
("aloft doctor" says), as an environment's would be.`,
		Example: `  sudo aloft image build
  sudo aloft image build desktop --desktop
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
	flags.StringVar(&o.dockerfile, "dockerfile", "", "`file` to build, in a folder that is the context unless --context names another")
	flags.StringVar(&o.context, "context", "", "`folder` that COPY may read; the Dockerfile is in it")
	flags.StringVar(&o.target, "target", "", "`stage` of the Dockerfile to build; the last unless given")
	flags.StringArrayVar(&o.args, "build-arg", nil, "`NAME=VALUE` for an ARG of the Dockerfile; may be repeated")
	flags.StringArrayVar(&o.secrets, "secret", nil, "secret for RUN --mount=type=secret: `id=ID,env=VARIABLE` or id=ID,src=FILE; may be repeated")
	flags.BoolVar(&o.noCache, "no-cache", false, "build every step of the Dockerfile again")
	flags.StringVar(&o.packages, "packages", "", "`file` that lists the packages of the base, one on a line")
	flags.BoolVar(&o.desktop, "desktop", false, "have a desktop in the base: VNC server, XFCE, Chromium")
	flags.StringVar(&o.lock, "lock", "", "`file` of their exact versions, as an earlier image has it")
	flags.StringVar(&o.suite, "suite", images.Suite, "Debian `release` of the base")
	flags.StringVar(&o.variant, "variant", "minbase", "`what` the base begins with, as mmdebstrap names it")
	flags.StringArrayVar(&o.mirrors, "mirror", nil, "`URL` to get Debian from, or a line of sources.list; may be repeated")
	cmd.MarkFlagsMutuallyExclusive("dockerfile", "desktop")
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
			return usageError{err}
		}
		list = string(data)
	}
	if o.desktop {
		list += "\n" + images.Desktop
	}
	packages, err := debian.ParsePackages(list)
	if err == nil && o.lock != "" {
		var lock []byte
		if lock, err = os.ReadFile(o.lock); err == nil {
			packages, err = debian.Lock(packages, lock)
		}
	}
	if err != nil {
		return usageError{err}
	}
	o.epoch = baseTime
	if text := a.getenv("SOURCE_DATE_EPOCH"); text != "" {
		if _, err := fmt.Sscan(text, &o.epoch); err != nil {
			return usageError{fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", text)}
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
	began := time.Now()
	var last lastLines
	layout := filepath.Join(work, "layout")
	err = debian.Build(cmd.Context(), layout, debian.Options{
		Suite: o.suite, Variant: o.variant, Packages: packages, Mirrors: o.mirrors, Setup: images.Setup, Time: time.Unix(o.epoch, 0),
	}, func(line string) {
		last.add(line)
		a.out.Status(fmt.Sprintf("%s  %s", cli.Took(time.Since(began)), cli.Line(line, 100)))
	})
	a.out.Status("")
	if err != nil {
		for _, line := range last.lines {
			a.out.Note("%s", cli.Line(line, 300))
		}
		return err
	}
	show, done := a.showProgress()
	img, err := s.Import(cmd.Context(), layout, name, show)
	done()
	if err != nil {
		return err
	}
	return a.printImage("local:"+name, img)
}

func (a *app) buildDockerfile(cmd *cobra.Command, f *imageFlags, o imageBuild, name string) error {
	s, c, err := f.open(a)
	if err != nil {
		return err
	}
	spec, err := o.spec(a.getenv)
	if err != nil {
		return usageError{err}
	}
	b, err := openBuilder(f.data, c.Images, c.Machine.Egress.network(), s)
	if err != nil {
		return err
	}
	_, img, err := b.BuildAs(cmd.Context(), spec, name, func(line string) {
		if a.out.JSON() {
			return
		}
		a.out.Line("%s", cli.Line(line, 2000))
	})
	if err = errors.Join(err, b.Engine.Close()); err != nil {
		return err
	}
	return a.printImage("local:"+name, img)
}

// spec is what the flags ask of a Dockerfile.
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
			return s, fmt.Errorf("--build-arg %q: it is NAME=VALUE", arg)
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
			return s, errors.New("--secret: it is id=ID,env=VARIABLE or id=ID,src=FILE")
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
