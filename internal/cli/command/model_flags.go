package command

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

// AddModelFlags adds the flags --model and --model-param to a command. The
// returned function reads them; it returns nil if neither flag is given. Unless
// anyModel is set, --model-param requires --model.
func (a *App) AddModelFlags(cmd *cobra.Command, usage string, anyModel bool) func() (*client.ModelRef, error) {
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
			return nil, UsageError(errors.New("--model-param requires --model"))
		}
		ref := &client.ModelRef{ID: cmp.Or(id, "default")}
		for _, p := range params {
			name, value, ok := strings.Cut(p, "=")
			if !ok || name == "" || value == "" {
				return nil, UsageError(fmt.Errorf("invalid --model-param %q: must be name=value", p))
			}
			ref.Params = append(ref.Params, client.ModelParam{ID: name, Value: value})
		}
		return ref, nil
	}
}

// completeModels completes model IDs.
func (a *App) completeModels(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	c, err := a.Connect()
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
