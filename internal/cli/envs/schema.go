package envs

import (
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/environment"
)

func newEnvSchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON schema of environment.json, for editors",
		Example: `  aloft env schema > environment.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a.Out.Text(strings.TrimRight(string(environment.Schema()), "\n") + "\n")
			return nil
		},
	}
}
