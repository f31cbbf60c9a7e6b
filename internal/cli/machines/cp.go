package machines

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/pkg/sftp"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
	"aloft/internal/transfer"
)

// workspace is the repository's checkout in a machine.
const workspace = "/workspace"

func newAgentCpCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files to or from an agent's machine",
		Long: `Copy a file or a folder to or from an agent's machine. Write the path in the
machine as AGENT:PATH, relative to its workspace. File modes are kept. When
copying from a machine, symbolic links that point outside the copied folder are
skipped.`,
		Example: `  aloft agent cp bc-…:report.html .
  aloft agent cp fixtures bc-…:test/fixtures`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, fromPath, isFrom := agentPath(args[0])
			to, toPath, isTo := agentPath(args[1])
			if isFrom == isTo {
				return command.Misuse(cmd, fmt.Errorf("one of SRC and DST must be AGENT:PATH, and the other a local path"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			var report transfer.Report
			if isFrom {
				if from, err = a.ResolveAgent(cmd.Context(), from); err != nil {
					return err
				}
				report, err = overSFTP(cmd.Context(), c, from, func(s *sftp.Client) (transfer.Report, error) {
					return transfer.Get(s, fromPath, args[1])
				})
			} else {
				if to, err = a.ResolveAgent(cmd.Context(), to); err != nil {
					return err
				}
				report, err = overSFTP(cmd.Context(), c, to, func(s *sftp.Client) (transfer.Report, error) {
					return transfer.Put(s, args[0], toPath)
				})
			}
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]any{"files": report.Files, "bytes": report.Bytes, "skipped": append([]string{}, report.Skipped...)})
			}
			for _, s := range report.Skipped {
				a.Out.Line("Skipped %s.", cli.Line(s, 0))
			}
			a.Out.Line("Copied %d files, %d bytes.", report.Files, report.Bytes)
			return nil
		},
	}
}

// agentPath splits AGENT:PATH.
func agentPath(arg string) (agentID, file string, ok bool) {
	id, file, ok := strings.Cut(arg, ":")
	if !ok || !strings.HasPrefix(id, "bc-") || strings.Contains(id, "/") {
		return "", "", false
	}
	if !path.IsAbs(file) {
		file = path.Join(workspace, file)
	}
	return id, file, true
}

func overSFTP(ctx context.Context, c *client.Client, agentID string, do func(*sftp.Client) (transfer.Report, error)) (transfer.Report, error) {
	conn, err := dialSSH(ctx, c, agentID)
	if err != nil {
		return transfer.Report{}, err
	}
	defer conn.Close()
	files, err := sftp.NewClient(conn)
	if err != nil {
		return transfer.Report{}, fmt.Errorf("start sftp in the machine: %w", err)
	}
	defer files.Close()
	report, err := do(files)
	if err != nil && ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	return report, err
}
