package envs

import "github.com/spf13/cobra"

func newEnvCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Manage environments: what agents' machines start from",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newEnvCheckCommand(a),
		newEnvSchemaCommand(a),
		newEnvSetupCommand(a),
		newEnvListCommand(a),
		newEnvShowCommand(a),
		newEnvCreateCommand(a),
		newEnvUpdateCommand(a),
		newEnvHistoryCommand(a),
		newEnvDeleteCommand(a),
		newEnvBuildCommand(a),
		newEnvBuildsCommand(a),
		newEnvLogsCommand(a),
		newEnvCancelCommand(a),
		newEnvShellCommand(a),
		newEnvSnapshotsCommand(a),
	)
	return cmd
}
