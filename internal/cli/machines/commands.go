// Package machines has the commands that work in an agent's machine: terminals, files, ports,
// the desktop and SSH.
package machines

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
		newConfigSSHCommand(a),
		newSSHProxyCommand(a),
	}
}

// AgentCommands returns the subcommands of `aloft agent` that this package adds.
func AgentCommands(shared *command.App) []*cobra.Command {
	a := &app{shared}
	return []*cobra.Command{
		newAgentSSHCommand(a),
		newAgentCpCommand(a),
		newAgentForwardCommand(a),
		newAgentPreviewCommand(a),
		newAgentDesktopCommand(a),
		newAgentAttachCommand(a),
		newAgentExecCommand(a),
	}
}
