package settings

import (
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newModelsCommand(a *app) *cobra.Command {
	return command.List[client.Model]{
		Use: "models", Short: "List the models that agents can use", Of: command.WithoutArgs((*client.Client).Models),
		Head: []string{"ID", "NAME", "ALSO", "PARAMETERS"},
		Row: func(m client.Model) []string {
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
	}.Command(a.App)
}

// newRepositoriesCommand lists the repositories that agents have worked on.
func newRepositoriesCommand(a *app) *cobra.Command {
	return command.List[client.Repo]{
		Use: "repositories", Short: "List repositories you can run agents on, most recently used first", Of: command.WithoutArgs((*client.Client).Repositories),
		Head: []string{"URL"}, None: "No repositories yet.",
		Row: func(r client.Repo) []string { return []string{cli.Line(r.URL, 0)} },
	}.Command(a.App)
}
