package host

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

	"aloft/internal/cli"
	"aloft/internal/control/bucket"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine/container"
)

func newSnapshotCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Manage saved disks of machines",
		Long: `Manage saved disks of machines: snapshots, and builds of environments.

All commands except create work on the data folder (--data) of a server on this host.
They require root. The server may be running or not.`,
		Example: `  aloft snapshot create bc-…
  aloft snapshot list
  aloft snapshot export snapshot-20260102-… s3://backups?region=eu-central-1
  aloft snapshot import snapshot-20260102-… /mnt/usb/aloft`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&a.Config.Data, "data", a.Config.Data, "data `folder` of the server (ALOFT_DATA)")
	cmd.AddCommand(newSnapshotCreateCommand(a), newSnapshotListCommand(a), newSnapshotExportCommand(a), newSnapshotImportCommand(a), newSnapshotDeleteCommand(a))
	return cmd
}

func newSnapshotCreateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "create AGENT",
		Short: "Save the disk of an agent's machine",
		Long: `Save the disk of an agent's machine. The snapshot is kept until it is deleted. Saving
stops the machine and all its processes; it restarts when it is next needed. The time
it takes does not depend on the number of files.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			id, err := c.Snapshot(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.ReportDone("Saved", id)
		},
	}
}

// layers calls do with the layer store of the data folder.
func (a *app) layers(do func(*layer.Store) error) (err error) {
	dir := filepath.Join(a.Config.Data, "machines", container.LayersDir)
	if _, err := os.Stat(dir); err != nil {
		return &cli.Problem{Exit: cli.Failure, Code: "no_data", Message: fmt.Sprintf("cannot open saved disks: %v", err), Hint: "set the server's data folder with --data, and run this as root on its host", Err: err}
	}
	s, err := layer.Open(dir, slog.New(slog.NewTextHandler(a.Stderr, nil)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return do(s)
}

func newSnapshotListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List snapshots and builds",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return a.layers(func(s *layer.Store) error {
				kept, err := s.List()
				if err != nil {
					return err
				}
				if a.Out.JSON() {
					if kept == nil {
						kept = []layer.Layer{}
					}
					return a.Out.Value(kept)
				}
				rows := [][]string{{"SNAPSHOT", "CREATED", "IMAGE"}}
				for _, l := range kept {
					rows = append(rows, []string{l.ID, cli.Ago(time.Since(l.Created)), cli.Line(l.Image, 60)})
				}
				a.Out.Table(rows)
				return nil
			})
		},
	}
}

func newSnapshotExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "export SNAPSHOT BUCKET",
		Short: "Export a snapshot to a folder or a bucket",
		Long: `Export a snapshot and the layers below it, without the image, to a folder or a bucket
(s3://NAME?region=REGION, with the credentials of the AWS tools). Each layer is an OCI
layer (tar, zstd) named by its digest. Layers that already exist there are skipped.`,
		Example: `  aloft snapshot export snapshot-20260102-… /mnt/usb/aloft`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.move(cmd.Context(), args[1], func(s *layer.Store, b *blob.Bucket, progress func(n, of int)) error {
				if err := s.Export(cmd.Context(), args[0], b, progress); err != nil {
					return err
				}
				return a.ReportDone("Exported", args[0])
			})
		},
	}
}

func newSnapshotImportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "import SNAPSHOT BUCKET",
		Short: "Import a snapshot from a folder or a bucket",
		Long: `Import a snapshot that was exported to a folder or a bucket. Its image must exist here
under the same name.`,
		Example: `  aloft snapshot import snapshot-20260102-… 's3://backups?region=eu-central-1'`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.move(cmd.Context(), args[1], func(s *layer.Store, b *blob.Bucket, progress func(n, of int)) error {
				if _, err := s.Import(cmd.Context(), args[0], b, progress); err != nil {
					return err
				}
				return a.ReportDone("Imported", args[0])
			})
		},
	}
}

func newSnapshotDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete SNAPSHOT",
		Short: "Delete a snapshot",
		Long: `Delete a snapshot. Machines created from it are not affected; its files are removed when
no machine uses them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.layers(func(s *layer.Store) error {
				if err := s.Delete(args[0]); err != nil {
					return err
				}
				return a.ReportDone("Deleted", args[0])
			})
		},
	}
}

// move calls do with the layer store, a bucket, and a function that prints progress.
func (a *app) move(ctx context.Context, name string, do func(*layer.Store, *blob.Bucket, func(n, of int)) error) (err error) {
	address, err := bucketURL(name)
	if err != nil {
		return err
	}
	b, err := bucket.Open(ctx, address)
	if err != nil {
		return fmt.Errorf("open the bucket: %w", err)
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return a.layers(func(s *layer.Store) error {
		return do(s, b, func(n, of int) { fmt.Fprintf(a.Stderr, "layer %d of %d\n", n, of) })
	})
}

// bucketURL returns the URL of a bucket, where name may also be a folder.
func bucketURL(name string) (string, error) {
	if strings.Contains(name, "://") {
		return name, nil
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	// Temporary files go next to the target, not in /tmp, so that they can be renamed.
	u := url.URL{Scheme: "file", Path: dir, RawQuery: "create_dir=true&no_tmp_dir=true&metadata=skip"}
	return u.String(), nil
}
