package accounts

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/secret"
)

func newSecretCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Manage secrets for machines",
		Long: `Manage secrets for machines.

A secret is an environment variable in machines. It is your own, the team's (--team) or
an environment's (--env). If several have the same name, the environment's is used,
then yours, then the team's. Values are stored encrypted, are never shown again, and
are redacted from machines' output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretListCommand(a), newSecretSetCommand(a), newSecretDeleteCommand(a), newSecretRotateCommand(a), newSecretExternalIDCommand(a))
	return cmd
}

// ownerFlags adds the flags that select the owner of a command's secrets.
func ownerFlags(cmd *cobra.Command, o *client.SecretOwner) {
	cmd.Flags().BoolVar(&o.Team, "team", false, "the team's secret; admins only")
	cmd.Flags().StringVar(&o.EnvironmentID, "env", "", "the secret of the environment with this `ID`")
	cmd.MarkFlagsMutuallyExclusive("team", "env")
}

func newSecretListCommand(a *app) *cobra.Command {
	var environment string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your secrets and the team's, without values",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			all, err := c.Secrets(cmd.Context(), environment)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					Items []client.Secret `json:"items"`
				}{append([]client.Secret{}, all...)})
			}
			rows := [][]string{{"NAME", "OWNER", "TYPE", "REPOSITORIES", "SET"}}
			for _, s := range all {
				repos := "all"
				if len(s.Repos) > 0 {
					repos = strings.Join(s.Repos, ", ")
				}
				rows = append(rows, []string{cli.Line(s.Name, 80), cli.Line(s.Owner, 20), cli.Line(s.Type, 30), cli.Line(repos, 80), cli.Ago(time.Since(s.CreatedAt))})
			}
			a.Out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&environment, "env", "", "also list those of the environment with this `ID`")
	return cmd
}

func newSecretSetCommand(a *app) *cobra.Command {
	var owner client.SecretOwner
	var in client.NewSecret
	var file string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set a secret",
		Long: `Set a secret.

The command asks for the value without echo, or reads it from a pipe or --file. It is
never an argument, which other users of your computer could see. One trailing newline
is removed. Running machines get the secret at their agent's next run.

Types: a runtime_secret (default) is redacted from machines' output, an
environment_variable is not, and a build_secret is set only while an environment is
built. CURSOR_AWS_ASSUME_IAM_ROLE_ARN gives machines an AWS role's credentials.`,
		Example: `  aloft secret set NPM_TOKEN
  aloft secret set --team --repo github.com/team/app KUBECONFIG --file kubeconfig
  pass show deploy | aloft secret set --env env-… DEPLOY_KEY`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := secret.CheckName(args[0]); err != nil {
				return err // check the flags before asking for the value
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if in.Value, err = a.ReadSecret(args[0], file); err != nil {
				return err
			}
			set, err := c.SetSecret(cmd.Context(), owner, args[0], in)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(set)
			}
			a.Out.Line("Set %s (%s, %s).", cli.Line(set.Name, 80), cli.Line(set.Owner, 20), cli.Line(set.Type, 30))
			if set.Warning != "" {
				fmt.Fprintf(a.Stderr, "warning: %s\n", cli.Line(set.Warning, 0))
			}
			return nil
		},
	}
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&in.Type, "type", string(secret.Runtime), "runtime_secret, environment_variable or build_secret")
	cmd.Flags().StringArrayVar(&in.Repos, "repo", nil, "only for machines with this repository, such as github.com/team/app; may be repeated")
	cmd.Flags().StringVar(&file, "file", "", "read the value from this `file`")
	return cmd
}

func newSecretDeleteCommand(a *app) *cobra.Command {
	var owner client.SecretOwner
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a secret",
		Long:    "Delete a secret. Running machines lose it at their agent's next run.",
		Example: `  aloft secret delete --team NPM_TOKEN`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if err := c.DeleteSecret(cmd.Context(), owner, args[0]); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					Name string `json:"name"`
				}{args[0]})
			}
			a.Out.Line("Deleted %s.", cli.Line(args[0], 80))
			return nil
		},
	}
	ownerFlags(cmd, &owner)
	return cmd
}

func newSecretRotateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Re-encrypt every secret with new keys",
		Long: `Re-encrypt every secret, including other users', with new keys. Admins only.

A server that keeps its key in a file creates a new key. If the configuration names
another key service, this moves all secrets to it. You can interrupt and repeat it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			n, err := c.RotateSecrets(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					Count int `json:"count"`
				}{n})
			}
			a.Out.Line("Re-encrypted %d secrets with new keys.", n)
			return nil
		},
	}
}

func newSecretExternalIDCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "external-id",
		Short: "Show the external ID for the trust policies of your AWS roles",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			id, err := c.ExternalID(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(struct {
					ExternalID string `json:"externalId"`
				}{id})
			}
			a.Out.Line("%s", cli.Line(id, 80))
			return nil
		},
	}
}
