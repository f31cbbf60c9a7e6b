package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newModelsCommand(a *app) *cobra.Command {
	return list[client.Model]{
		use: "models", short: "List the models that agents may use", of: plain((*client.Client).Models),
		head: []string{"ID", "NAME", "ALSO", "PARAMETERS"},
		row: func(m client.Model) []string {
			var params []string
			for _, p := range m.Parameters {
				var values []string
				for _, v := range p.Values {
					values = append(values, v.Value)
				}
				params = append(params, p.ID+"="+strings.Join(values, "|"))
			}
			return []string{cli.Line(m.ID, 80), cli.Line(m.DisplayName, 60), cli.Line(strings.Join(m.Aliases, ", "), 60), cli.Line(strings.Join(params, " "), 120)}
		},
	}.command(a)
}

// modelFlags adds the flags --model and --model-param to a command. The returned
// function reads them: nil where neither is given. Without anyModel, parameters need
// a model.
func (a *app) modelFlags(cmd *cobra.Command, usage string, anyModel bool) func() (*client.ModelRef, error) {
	var id string
	var params []string
	cmd.Flags().StringVar(&id, "model", "", usage)
	cmd.Flags().StringArrayVar(&params, "model-param", nil, "`name=value` of one of the model's parameters, as 'aloft models' lists them; may be given for each")
	_ = cmd.RegisterFlagCompletionFunc("model", a.completeModels)
	return func() (*client.ModelRef, error) {
		switch {
		case id == "" && len(params) == 0:
			return nil, nil //nolint:nilnil // neither is given
		case id == "" && !anyModel:
			return nil, usageError{errors.New("--model-param: give the model too, with --model")}
		}
		ref := &client.ModelRef{ID: cmp.Or(id, "default")}
		for _, p := range params {
			name, value, ok := strings.Cut(p, "=")
			if !ok || name == "" || value == "" {
				return nil, usageError{fmt.Errorf("--model-param %q: write it as name=value", p)}
			}
			ref.Params = append(ref.Params, client.ModelParam{ID: name, Value: value})
		}
		return ref, nil
	}
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
