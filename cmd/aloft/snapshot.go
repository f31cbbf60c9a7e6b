package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file:///folder
	_ "gocloud.dev/blob/s3blob"   // s3://bucket?region=…

	"aloft/internal/cli"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container"
)

func newSnapshotCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Keep and move the saved disks of machines",
		Long: `Keep and move the saved disks of machines: snapshots, and builds of environments.

All but create work on the data folder (--data) of a server on this host, as
root, whether it runs or not.`,
		Example: `  aloft snapshot create bc-…
  aloft snapshot list
  aloft snapshot export snapshot-20260102-… s3://backups?region=eu-central-1
  aloft snapshot import snapshot-20260102-… /mnt/usb/aloft`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&a.config.Data, "data", a.config.Data, "data `folder` of the server (ALOFT_DATA)")
	cmd.AddCommand(newSnapshotCreateCommand(a), newSnapshotListCommand(a), newSnapshotExportCommand(a), newSnapshotImportCommand(a), newSnapshotDeleteCommand(a))
	return cmd
}

func newSnapshotCreateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "create AGENT",
		Short: "Save the disk of an agent's machine",
		Long: `Save the disk of an agent's machine, for as long as the snapshot is not deleted.
The machine is stopped for that, with all that runs in it; it goes on when it is
needed. It takes as long with a million files as with none.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			id, err := c.Snapshot(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.did("Saved", id)
		},
	}
}

// layers does something with the saved layers of the data folder.
func (a *app) layers(do func(*layer.Store) error) (err error) {
	dir := filepath.Join(a.config.Data, "machines", container.LayersDir)
	if _, err := os.Stat(dir); err != nil {
		return &cli.Problem{Exit: cli.Failure, Code: "no_data", Message: fmt.Sprintf("there are no saved disks here: %v", err), Hint: "name the server's data folder with --data, and run this as root on its host", Err: err}
	}
	s, err := layer.Open(dir, slog.New(slog.NewTextHandler(a.stderr, nil)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func newSnapshotListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the snapshots and builds that are kept",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.layers(func(s *layer.Store) error {
				kept, err := s.List()
				if err != nil {
					return err
				}
				if a.out.JSON() {
					if kept == nil {
						kept = []layer.Layer{}
					}
					return a.out.Value(kept)
				}
				rows := [][]string{{"SNAPSHOT", "CREATED", "IMAGE"}}
				for _, l := range kept {
					rows = append(rows, []string{l.ID, cli.Ago(time.Since(l.Created)), cli.Line(l.Image, 60)})
				}
				a.out.Table(rows)
				return nil
			})
		},
	}
}

func newSnapshotExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export SNAPSHOT BUCKET",
		Short: "Write a snapshot to a folder or a bucket",
		Long: `Write a snapshot, and all that it stands on but the image, to a folder or a bucket
(s3://NAME?region=REGION, with credentials as AWS's tools have them). Each layer
is an OCI layer (tar, zstd), named by its digest; one that is there already is
not written again.`,
		Example: `  aloft snapshot export snapshot-20260102-… /mnt/usb/aloft`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.move(cmd.Context(), args[1], func(s *layer.Store, b *blob.Bucket, progress func(n, of int)) error {
				if err := s.Export(cmd.Context(), args[0], b, progress); err != nil {
					return err
				}
				return a.did("Exported", args[0])
			})
		},
	}
}

func newSnapshotImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "import SNAPSHOT BUCKET",
		Short: "Read a snapshot from a folder or a bucket, and keep it",
		Long: `Read a snapshot that was exported to a folder or a bucket, and keep it. The image
that it stands on has to be had here under the same name.`,
		Example: `  aloft snapshot import snapshot-20260102-… 's3://backups?region=eu-central-1'`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.move(cmd.Context(), args[1], func(s *layer.Store, b *blob.Bucket, progress func(n, of int)) error {
				if _, err := s.Import(cmd.Context(), args[0], b, progress); err != nil {
					return err
				}
				return a.did("Imported", args[0])
			})
		},
	}
}

func newSnapshotDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete SNAPSHOT",
		Short: "Give up a snapshot",
		Long: `Give up a snapshot. Machines that were made from it go on; its files are removed
when nothing needs them any more.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.layers(func(s *layer.Store) error {
				if err := s.Delete(args[0]); err != nil {
					return err
				}
				return a.did("Deleted", args[0])
			})
		},
	}
}

// move does something with the layers and a bucket, telling which layer is next.
func (a *app) move(ctx context.Context, name string, do func(*layer.Store, *blob.Bucket, func(n, of int)) error) (err error) {
	address, err := bucketURL(name)
	if err != nil {
		return err
	}
	b, err := blob.OpenBucket(ctx, address)
	if err != nil {
		return fmt.Errorf("open the bucket: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return a.layers(func(s *layer.Store) error {
		return do(s, b, func(n, of int) { fmt.Fprintf(a.stderr, "layer %d of %d\n", n, of) })
	})
}

// bucketURL is the URL of a bucket, for which a folder may stand.
func bucketURL(name string) (string, error) {
	if strings.Contains(name, "://") {
		return name, nil
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	// Beside the file and not in /tmp, so that it can be renamed into place.
	u := url.URL{Scheme: "file", Path: dir, RawQuery: "create_dir=true&no_tmp_dir=true&metadata=skip"}
	return u.String(), nil
}
