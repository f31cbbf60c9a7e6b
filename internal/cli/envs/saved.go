package envs

import (
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newEnvListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List saved environments, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			list, err := c.Environments(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string][]client.Environment{"items": append([]client.Environment{}, list...)})
			}
			if len(list) == 0 {
				a.Out.Note("No saved environments. A repository can have its own in .aloft/environment.json.")
				return nil
			}
			rows := [][]string{{"ID", "NAME", "OWNER", "CREATED"}}
			for _, e := range list {
				rows = append(rows, []string{cli.Line(e.ID, 80), cli.Line(e.Name, 48), cli.Line(e.Owner, 10), cli.Ago(time.Since(e.CreatedAt))})
			}
			a.Out.Table(rows)
			return nil
		},
	}
}

func newEnvShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show ENVIRONMENT",
		Short:   "Print a saved environment",
		Example: `  aloft env show env-… > .aloft/environment.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			e, err := c.Environment(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(e)
			}
			a.Out.Line("%s", cli.Exact(e.JSON))
			return nil
		},
	}
}

func newEnvBuildsCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "builds ENVIRONMENT|REPO",
		Short: "List the builds of an environment or a repository, newest first",
		Example: `  aloft env builds env-…
  aloft env builds https://git.example.com/team/app`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			list, err := c.Builds(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string][]client.Build{"items": append([]client.Build{}, list...)})
			}
			if len(list) == 0 {
				a.Out.Note("No builds yet. Start one with `aloft env build`.")
				return nil
			}
			rows := [][]string{{"ID", "STATUS", "TRIGGER", "BEGUN", ""}}
			for _, b := range list {
				rows = append(rows, []string{cli.Line(b.ID, 80), cli.Line(b.Status, 12), cli.Line(b.Trigger, 14), cli.Ago(time.Since(b.CreatedAt)), cli.Line(b.Message, 60)})
			}
			a.Out.Table(rows)
			return nil
		},
	}
}

func newEnvDeleteCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ENVIRONMENT",
		Short: "Delete a saved environment, with its history, secrets and builds",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.DeleteEnvironment(cmd.Context(), args[0]); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]string{"id": args[0]})
			}
			a.Out.Line("Deleted %s.", cli.Line(args[0], 80))
			return nil
		},
	}
}
