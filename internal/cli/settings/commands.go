// Package settings has the commands for a team's configuration and usage:
// settings, rules, memories, models, MCP servers, repository access, received events,
// usage and the audit log.
package settings

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
		newSettingsCommand(a),
		newRulesCommand(a),
		newMemoryCommand(a),
		newModelsCommand(a),
		newConnectCommand(a),
		newRepositoriesCommand(a),
		newMCPCommand(a),
		newAccessCommand(a),
		newUsageCommand(a),
		newAuditCommand(a),
		newEventsCommand(a),
		newAutomationsCommand(a),
	}
}
