// Package agents has the commands that start agents, watch them, answer them and show
// their work.
package agents

import (
	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
)

// app is the commands' shared state, with the methods of this package.
type app struct{ *command.App }

// Commands returns the package's commands. The command agent also gets the
// subcommands in more.
func Commands(shared *command.App, more ...*cobra.Command) []*cobra.Command {
	a := &app{shared}
	agent := newAgentCommand(a)
	agent.AddCommand(more...)
	return []*cobra.Command{newRunCommand(a), newReviewCommand(a), agent, newApprovalsCommand(a)}
}
