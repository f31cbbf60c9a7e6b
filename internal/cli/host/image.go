package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container"
	"aloft/internal/server"
)

// imageFlags select the image store of a command.
type imageFlags struct{ config, data string }

func newImageCommand(a *app) *cobra.Command {
	f := &imageFlags{config: a.Getenv("ALOFT_CONFIG"), data: a.Config.Data}
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Manage machine images",
		Long: `Manage machine images. Run these commands on the server's host: they read and write
the server's data folder, and are safe to use while the server runs.

An image is "host", "rootfs:DIR", "oci:DIR[:TAG]", "local:NAME", or a reference such
as debian:12 or ghcr.io/team/app@sha256:….`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&f.config, "config", f.config, "configuration `file` of the server (ALOFT_CONFIG)")
	cmd.PersistentFlags().StringVar(&f.data, "data", f.data, "data `folder` of the server (ALOFT_DATA)")
	cmd.AddCommand(newImageListCommand(a, f), newImagePullCommand(a, f), newImageBuildCommand(a, f), newImageImportCommand(a, f), newImageExportCommand(a, f),
		newImageRemoveCommand(a, f), newImagePruneCommand(a, f))
	return cmd
}

// open opens the store that the flags select. The registries of the named
// images may have any address, because the operator has chosen them.
func (f *imageFlags) open(a *app, named ...string) (*image.Store, server.Config, error) {
	if os.Geteuid() != 0 {
		return nil, server.Config{}, &cli.Problem{Exit: cli.Denied, Code: "not_root", Message: "unpacking layers with file owners requires root", Hint: "run it with sudo"}
	}
	c, err := server.LoadConfig(f.config, a.Getenv)
	if err != nil {
		return nil, c, err
	}
	s, err := server.OpenImages(f.data, c, named...)
	return s, c, err
}

// showProgress returns a function that prints an image's progress, and one that clears
// the progress line.
func (a *app) showProgress() (show func(image.Progress), done func()) {
	note := ""
	return func(p image.Progress) {
			if p.Note != "" && p.Note != note {
				note = p.Note
				a.Out.Note("%s", cli.Line(p.Note, 300))
			}
			if p.Layers > 0 {
				a.Out.Status(fmt.Sprintf("%s: %d of %d layers, %s of %s", cli.Line(p.Image, 60), p.Ready, p.Layers, humanize.IBytes(uint64(p.Done)), humanize.IBytes(uint64(p.Total))))
			}
		}, func() {
			a.Out.Status("")
		}
}

// imageResult is the output of commands that add an image.
type imageResult struct {
	Name   string `json:"name"`
	Pinned string `json:"pinned,omitempty"`
	Digest string `json:"digest,omitempty"`
	Layers int    `json:"layers"`
}

func (a *app) printImage(name string, img image.Image) error {
	r := imageResult{Name: name, Pinned: img.Pinned, Digest: img.Digest, Layers: len(img.Lower) - 1}
	if a.Out.JSON() {
		return a.Out.Value(r)
	}
	a.Out.Line("%s  %s", cli.Line(r.Name, 200), cli.Line(r.Digest, 80))
	return nil
}

func newImagePullCommand(a *app, f *imageFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "pull REFERENCE…",
		Short: "Pull images from their registries",
		Long: `Pull images from their registries and unpack them, even if a local copy exists. An
interrupted pull resumes where it stopped.`,
		Example: `  sudo aloft image pull debian:12
  sudo aloft image pull ghcr.io/team/app@sha256:…`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(a, args...)
			if err != nil {
				return err
			}
			show, done := a.showProgress()
			defer done()
			for _, ref := range args {
				img, err := s.Pull(cmd.Context(), ref, show)
				done()
				if err != nil {
					return err
				}
				if err := a.printImage(ref, img); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newImageImportCommand(a *app, f *imageFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "import DIR[:TAG] NAME",
		Short:   "Import an image from an OCI layout as local:NAME",
		Example: `  sudo aloft image import ./layout base`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(a)
			if err != nil {
				return err
			}
			show, done := a.showProgress()
			img, err := s.Import(cmd.Context(), args[0], strings.TrimPrefix(args[1], "local:"), show)
			done()
			if err != nil {
				return err
			}
			return a.printImage("local:"+strings.TrimPrefix(args[1], "local:"), img)
		},
	}
}

func newImageExportCommand(a *app, f *imageFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "export NAME DIR[:TAG]",
		Short: "Export an image to a folder as an OCI layout",
		Long: `Export an image, pulling it first if needed, to a new folder as an OCI layout, which
"aloft image import", skopeo, podman and others can read. The layers are repacked,
so the image's digest changes.`,
		Example: `  sudo aloft image export local:base ./layout
  sudo aloft image export debian:12 ./layout:12`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, _, err := f.open(a)
			if err != nil {
				return err
			}
			dir, tag, ok := strings.Cut(args[1], ":")
			if !ok {
				tag = "latest"
			}
			if _, err := os.Lstat(dir); err == nil {
				return command.UsageError(fmt.Errorf("%s already exists: choose a new folder", dir))
			}
			show, done := a.showProgress()
			defer done()
			img, err := s.Prepare(cmd.Context(), args[0], show)
			done()
			if err != nil {
				return err
			}
			if img.Digest == "" {
				return command.UsageError(fmt.Errorf("%s cannot be exported: only local:NAME, oci:DIR and registry references can", args[0]))
			}
			a.Out.Status("packing " + cli.Line(args[0], 100))
			digest, err := layer.ExportImage(cmd.Context(), s.LayersOf(img), img.Config, dir, tag)
			a.Out.Status("")
			if err != nil {
				return errors.Join(err, os.RemoveAll(dir))
			}
			return a.printImage(args[0], image.Image{Pinned: img.Pinned, Digest: digest, Lower: img.Lower})
		},
	}
}

func newImageListCommand(a *app, f *imageFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List local images",
		Args:    cobra.NoArgs,
		Aliases: []string{"ls"},
		RunE: func(*cobra.Command, []string) error {
			s, _, err := f.open(a)
			if err != nil {
				return err
			}
			records, err := s.List()
			if err != nil {
				return err
			}
			type listed struct {
				Name   string    `json:"name"`
				Digest string    `json:"digest"`
				Layers int       `json:"layers"`
				Bytes  int64     `json:"bytes"`
				Used   time.Time `json:"usedAt"`
			}
			list := []listed{}
			for _, r := range records {
				// List a named image once, without its digest entry.
				if i := strings.IndexByte(r.Name, '@'); i > 0 && slices.ContainsFunc(records, func(o image.Record) bool {
					return o.Digest == r.Digest && strings.HasPrefix(o.Name, r.Name[:i]) && o.Name != r.Name
				}) {
					continue
				}
				list = append(list, listed{r.Name, r.Digest, len(r.Layers), s.Size(r), r.Used.UTC()})
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]any{"items": list})
			}
			if len(list) == 0 {
				a.Out.Note("No images yet. Add one with `aloft image pull` or `aloft image build`.")
				return nil
			}
			rows := [][]string{{"NAME", "LAYERS", "SIZE", "USED"}}
			for _, l := range list {
				rows = append(rows, []string{cli.Line(l.Name, 140), fmt.Sprint(l.Layers), humanize.IBytes(uint64(l.Bytes)), cli.Ago(time.Since(l.Used))})
			}
			a.Out.Table(rows)
			return nil
		},
	}
}

func newImageRemoveCommand(a *app, f *imageFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME…",
		Short: "Remove image names; prune then deletes their layers",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, _, err := f.open(a)
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				errs = append(errs, s.Remove(name))
			}
			return errors.Join(errs...)
		},
	}
}

func newImagePruneCommand(a *app, f *imageFlags) *cobra.Command {
	var unused time.Duration
	var cache bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove unused images and layers",
		Long: `Remove images that no machine has used for a while, and layers that nothing uses.
Images added with "aloft image import" or "aloft image build" stay until they are
removed by name. This is safe to run while the server runs.`,
		Example: `  sudo aloft image prune --unused 24h --build-cache`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, c, err := f.open(a)
			if err != nil {
				return err
			}
			keep, err := container.Needs(server.MachinesDir(f.data))
			if err != nil {
				return err
			}
			got, err := s.Prune(cmd.Context(), image.PruneOptions{Unused: unused, Keep: keep})
			if err != nil {
				return err
			}
			if cache {
				if err := a.pruneCache(cmd.Context(), f.data, c); err != nil {
					return err
				}
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]any{"images": append([]string{}, got.Images...), "layers": got.Layers, "bytes": got.Bytes})
			}
			a.Out.Line("Removed %d images and %d layers: %s.", len(got.Images), got.Layers, humanize.IBytes(uint64(got.Bytes)))
			return nil
		},
	}
	cmd.Flags().DurationVar(&unused, "unused", 7*24*time.Hour, "`how long` an image is kept after it was last used")
	cmd.Flags().BoolVar(&cache, "build-cache", false, "also remove the cache of Dockerfile builds and the packages kept by \"aloft image build\"")
	return cmd
}

func (a *app) pruneCache(ctx context.Context, data string, c server.Config) error {
	if err := os.RemoveAll(server.PackagesDir(data)); err != nil {
		return err
	}
	b, err := server.OpenBuilder(a.Embedded, data, c, c.Machine.Egress.Network(), nil)
	if err != nil {
		return err
	}
	return errors.Join(b.Prune(ctx), b.Engine.Close())
}

// lastLines keeps the last lines of a command's output, to print them if the
// command fails.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, line); len(l.lines) > 20 {
		l.lines = l.lines[1:]
	}
}
