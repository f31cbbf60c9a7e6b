// Package envs has the commands for environments, from which agents' machines
// start.
package envs

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
		newEnvCommand(a),
	}
}
