package envs

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newEnvSnapshotsCommand(a *app) *cobra.Command {
	var remove, publish, withdraw string
	cmd := &cobra.Command{
		Use:   "snapshots [ENVIRONMENT|REPO]",
		Short: "List the saved disks of your machines, publish or delete one",
		Long: `List the saved disks of your machines (for admins, of all machines), newest first. The
list shows each snapshot's own size, without the layers below it, and when it is
removed unless a machine starts from it first. With an environment or a repository
URL, list only the snapshots that its machines can start from.

A machine starts from a snapshot of its own user, or from one that an admin has
published with --publish. --unpublish takes that back.

With --delete, delete a snapshot. Machines that started from it are not affected.`,
		Example: `  aloft env snapshots
  aloft env snapshots https://git.example.com/team/app
  aloft env snapshots --delete snapshot-20260102-…`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (remove != "" || publish != "" || withdraw != "") && len(args) > 0 {
				return command.Misuse(cmd, errors.New("--delete, --publish and --unpublish cannot be combined with an environment or a repository"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if remove != "" {
				if err := c.DeleteSnapshot(cmd.Context(), remove); err != nil {
					return err
				}
				return a.ReportDone("Deleted", remove)
			}
			if publish != "" {
				if err := c.PublishSnapshot(cmd.Context(), publish, true); err != nil {
					return err
				}
				return a.ReportDone("Published", publish)
			}
			if withdraw != "" {
				if err := c.PublishSnapshot(cmd.Context(), withdraw, false); err != nil {
					return err
				}
				return a.ReportDone("Unpublished", withdraw)
			}
			of := ""
			if len(args) > 0 {
				of = args[0]
			}
			list, err := c.Snapshots(cmd.Context(), of)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string][]client.SavedSnapshot{"items": append([]client.SavedSnapshot{}, list...)})
			}
			rows := [][]string{{"SNAPSHOT", "REPOSITORY", "SIZE", "SAVED", "EXPIRES", "FOR"}}
			for _, s := range list {
				size, expires, users := "-", "never", "its user"
				if s.Published {
					users = "everyone"
				}
				if s.SizeBytes != nil {
					size = mebibytes(*s.SizeBytes)
				}
				if s.ExpiresAt != nil {
					expires = s.ExpiresAt.Local().Format(time.DateOnly)
				}
				rows = append(rows, []string{cli.Line(s.ID, 80), cli.Line(s.Repo, 60), size, cli.Ago(time.Since(s.CreatedAt)), expires, users})
			}
			a.Out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&remove, "delete", "", "delete this `snapshot`")
	cmd.Flags().StringVar(&publish, "publish", "", "let the machines of all members start from this `snapshot` (admins)")
	cmd.Flags().StringVar(&withdraw, "unpublish", "", "let only its user's machines start from this `snapshot` (admins)")
	cmd.MarkFlagsMutuallyExclusive("delete", "publish", "unpublish")
	return cmd
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
