package command

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

// AddCompletion adds shell completion to cmd and the commands below it: for
// arguments that a command's usage calls AGENT or ENVIRONMENT, and for the
// flags --env and --run-mode. Commands that already have completion keep it.
func (a *App) AddCompletion(cmd *cobra.Command) {
	if words := strings.Fields(cmd.Use); len(words) > 1 && cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 {
		switch first, _, _ := strings.Cut(strings.Trim(words[1], "[]."), "|"); first {
		case "AGENT":
			cmd.ValidArgsFunction = a.CompleteAgents
		case "ENVIRONMENT":
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
				if len(args) > 0 {
					return nil, cobra.ShellCompDirectiveDefault // complete with files; versions have no completion
				}
				return a.completeEnvironments(cmd, true)
			}
		}
	}
	// Ignore the errors: an error means that the command has its own
	// completion.
	if cmd.Flags().Lookup("env") != nil {
		_ = cmd.RegisterFlagCompletionFunc("env", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeEnvironments(cmd, false)
		})
	}
	if cmd.Flags().Lookup("run-mode") != nil {
		_ = cmd.RegisterFlagCompletionFunc("run-mode", cobra.FixedCompletions([]cobra.Completion{"run-everything", "auto-review", "allowlist"}, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, sub := range cmd.Commands() {
		a.AddCompletion(sub)
	}
}

// completeEnvironments completes with the ids of the saved environments, or else with
// their names.
func (a *App) completeEnvironments(cmd *cobra.Command, ids bool) ([]cobra.Completion, cobra.ShellCompDirective) {
	of := func(ctx context.Context, c *client.Client) ([]client.Environment, error) { return c.Environments(ctx) }
	return ask(a, cmd, of, func(e client.Environment) cobra.Completion {
		id, name := cli.Line(e.ID, 80), cli.Line(e.Name, 80)
		if ids {
			return cobra.CompletionWithDesc(id, name)
		}
		return cobra.CompletionWithDesc(name, id)
	})
}

// ask asks the server for the items to complete with. Without a server, it
// returns none.
func ask[T any](a *App, cmd *cobra.Command, of func(context.Context, *client.Client) ([]T, error), one func(T) cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	c, err := a.Connect()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	items, err := of(ctx, c)
	if err != nil {
		return nil, none
	}
	var out []cobra.Completion
	for _, item := range items {
		out = append(out, one(item))
	}
	return out, none
}
