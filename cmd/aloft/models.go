package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newModelsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "models",
		Short: "List the models that agents may use",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			models, err := c.Models(cmd.Context())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					Items []client.Model `json:"items"`
				}{models})
			}
			rows := [][]string{{"ID", "NAME", "ALSO"}}
			for _, m := range models {
				rows = append(rows, []string{cli.Line(m.ID, 80), cli.Line(m.DisplayName, 60), cli.Line(strings.Join(m.Aliases, ", "), 60)})
			}
			a.out.Table(rows)
			return nil
		},
	}
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
