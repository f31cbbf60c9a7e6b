package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newModelsCommand(a *app) *cobra.Command {
	return list[client.Model]{
		use: "models", short: "List the models that agents may use", of: plain((*client.Client).Models),
		head: []string{"ID", "NAME", "ALSO"},
		row: func(m client.Model) []string {
			return []string{cli.Line(m.ID, 80), cli.Line(m.DisplayName, 60), cli.Line(strings.Join(m.Aliases, ", "), 60)}
		},
	}.command(a)
}

// newRepositoriesCommand lists what has been worked on.
func newRepositoriesCommand(a *app) *cobra.Command {
	return list[client.Repo]{
		use: "repositories", short: "List the repositories of your agents, the last used first", of: plain((*client.Client).Repositories),
		head: []string{"URL"}, none: "No agent has worked on a repository yet.",
		row: func(r client.Repo) []string { return []string{cli.Line(r.URL, 0)} },
	}.command(a)
}

// completeModels offers the server's models to the shell.
func (a *app) completeModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	c, err := a.connect()
	if err != nil {
		return nil, none
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	models, err := c.Models(ctx)
	if err != nil {
		return nil, none
	}
	var ids []cobra.Completion
	for _, m := range models {
		ids = append(ids, cobra.CompletionWithDesc(cli.Line(m.ID, 80), cli.Line(m.DisplayName, 60)))
	}
	return ids, none
}
