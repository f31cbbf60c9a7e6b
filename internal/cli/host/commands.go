// Package host has the commands that work on the server's host without a running server:
// the demo, images, snapshots, backups, the doctor, the sandbox, hooks, signing keys and the
// gateway process.
package host

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
)

// app is the commands' shared state, with the methods of this package.
type app struct{ *command.App }

// Commands returns the package's commands.
func Commands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{
		newDemoCommand(a),
		newImageCommand(a),
		newSnapshotCommand(a),
		newBackupCommand(a),
		newRestoreCommand(a),
		newDoctorCommand(a),
		newIdentityCommand(a),
		newGatewayCommand(a),
		newSandboxCommand(a),
		newHooksCommand(a),
	}
}
