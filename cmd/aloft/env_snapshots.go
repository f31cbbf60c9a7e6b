package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newEnvSnapshotsCommand(a *app) *cobra.Command {
	var remove string
	cmd := &cobra.Command{
		Use:   "snapshots [ENVIRONMENT|REPO]",
		Short: "List the saved disks of your machines, or delete one",
		Long: `List the saved disks of your machines (for admins, of all machines), newest first. The
list shows each snapshot's own size, without the layers below it, and when it is
removed unless a machine starts from it first. With an environment or a repository
URL, list only the snapshots that its machines can start from.

With --delete, delete a snapshot. Machines that started from it are not affected.`,
		Example: `  aloft env snapshots
  aloft env snapshots https://git.example.com/team/app
  aloft env snapshots --delete snapshot-20260102-…`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if remove != "" && len(args) > 0 {
				return misuse(cmd, errors.New("--delete cannot be combined with an environment or a repository"))
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			if remove != "" {
				if err := c.DeleteSnapshot(cmd.Context(), remove); err != nil {
					return err
				}
				return a.did("Deleted", remove)
			}
			of := ""
			if len(args) > 0 {
				of = args[0]
			}
			list, err := c.Snapshots(cmd.Context(), of)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(map[string][]client.SavedSnapshot{"items": append([]client.SavedSnapshot{}, list...)})
			}
			rows := [][]string{{"SNAPSHOT", "REPOSITORY", "SIZE", "SAVED", "EXPIRES"}}
			for _, s := range list {
				size, expires := "-", "never"
				if s.SizeBytes != nil {
					size = mebibytes(*s.SizeBytes)
				}
				if s.ExpiresAt != nil {
					expires = s.ExpiresAt.Local().Format(time.DateOnly)
				}
				rows = append(rows, []string{cli.Line(s.ID, 80), cli.Line(s.Repo, 60), size, cli.Ago(time.Since(s.CreatedAt)), expires})
			}
			a.out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&remove, "delete", "", "delete this `snapshot`")
	return cmd
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
