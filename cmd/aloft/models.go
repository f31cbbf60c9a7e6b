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
		use: "models", short: "List the models that agents can use", of: plain((*client.Client).Models),
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
// function reads them; it returns nil if neither is given. Unless anyModel is set,
// --model-param requires --model.
func (a *app) modelFlags(cmd *cobra.Command, usage string, anyModel bool) func() (*client.ModelRef, error) {
	var id string
	var params []string
	cmd.Flags().StringVar(&id, "model", "", usage)
	cmd.Flags().StringArrayVar(&params, "model-param", nil, "set a model parameter, as `name=value`; may be repeated; 'aloft models' lists the parameters")
	_ = cmd.RegisterFlagCompletionFunc("model", a.completeModels)
	return func() (*client.ModelRef, error) {
		switch {
		case id == "" && len(params) == 0:
			return nil, nil //nolint:nilnil // neither is given
		case id == "" && !anyModel:
			return nil, usageError{errors.New("--model-param requires --model")}
		}
		ref := &client.ModelRef{ID: cmp.Or(id, "default")}
		for _, p := range params {
			name, value, ok := strings.Cut(p, "=")
			if !ok || name == "" || value == "" {
				return nil, usageError{fmt.Errorf("invalid --model-param %q: must be name=value", p)}
			}
			ref.Params = append(ref.Params, client.ModelParam{ID: name, Value: value})
		}
		return ref, nil
	}
}

// newRepositoriesCommand lists the repositories that agents have worked on.
func newRepositoriesCommand(a *app) *cobra.Command {
	return list[client.Repo]{
		use: "repositories", short: "List repositories you can run agents on, most recently used first", of: plain((*client.Client).Repositories),
		head: []string{"URL"}, none: "No repositories yet.",
		row: func(r client.Repo) []string { return []string{cli.Line(r.URL, 0)} },
	}.command(a)
}

// completeModels completes model IDs.
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
