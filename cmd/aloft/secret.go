package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/client"
	"aloft/internal/secret"
)

func newSecretCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "secret",
		Short: "Give machines what they must know and nobody may see",
		Long: `Give machines what they must know and nobody may see.

A secret is a variable in the environment of machines. It is your own, the team's
(--team) or an environment's (--env); where names meet, the environment's counts,
then yours, then the team's. Its value is kept encrypted, is shown to nobody again,
and is taken out of whatever a machine says.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSecretListCommand(a), newSecretSetCommand(a), newSecretDeleteCommand(a), newSecretRotateCommand(a), newSecretExternalIDCommand(a))
	return cmd
}

// ownerFlags are those that say whose secrets are meant.
func ownerFlags(cmd *cobra.Command, o *client.SecretOwner) {
	cmd.Flags().BoolVar(&o.Team, "team", false, "the team's; for the admin")
	cmd.Flags().StringVar(&o.EnvironmentID, "env", "", "the environment's, by its `ID`")
	cmd.MarkFlagsMutuallyExclusive("team", "env")
}

func newSecretListCommand(a *app) *cobra.Command {
	var environment string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List your secrets and your team's, without values",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			all, err := c.Secrets(cmd.Context(), environment)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
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
			a.out.Table(rows)
			return nil
		},
	}
	cmd.Flags().StringVar(&environment, "env", "", "those of the environment of this `ID` too")
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

The value is asked for without being shown, or read from a pipe or --file; never
from an argument, which other users of your machine could see. One newline at its
end is left out. Machines that are up get it with their agent's next run.

Types: runtime_secret (default) is taken out of what machines say;
environment_variable is not; build_secret is there only while an environment is
built. CURSOR_AWS_ASSUME_IAM_ROLE_ARN gives machines an AWS role's credentials.`,
		Example: `  aloft secret set NPM_TOKEN
  aloft secret set --team --repo github.com/team/app KUBECONFIG --file kubeconfig
  pass show deploy | aloft secret set --env env-… DEPLOY_KEY`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := secret.CheckName(args[0]); err != nil {
				return err // before anything is typed
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			if in.Value, err = a.readSecretValue(args[0], file); err != nil {
				return err
			}
			set, err := c.SetSecret(cmd.Context(), owner, args[0], in)
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(set)
			}
			a.out.Line("Set %s (%s, %s).", cli.Line(set.Name, 80), cli.Line(set.Owner, 20), cli.Line(set.Type, 30))
			if set.Warning != "" {
				fmt.Fprintf(a.stderr, "warning: %s\n", cli.Line(set.Warning, 0))
			}
			return nil
		},
	}
	ownerFlags(cmd, &owner)
	cmd.Flags().StringVar(&in.Type, "type", string(secret.Runtime), "runtime_secret, environment_variable or build_secret")
	cmd.Flags().StringArrayVar(&in.Repos, "repo", nil, "only for machines with this repository, as github.com/team/app; may be repeated")
	cmd.Flags().StringVar(&file, "file", "", "read the value from a `FILE`")
	return cmd
}

// readSecretValue returns the value from wherever it is.
func (a *app) readSecretValue(name, file string) (string, error) {
	var data []byte
	var err error
	stdin, isFile := a.stdin.(*os.File)
	switch {
	case file != "":
		var f *os.File
		if f, err = os.Open(file); err == nil {
			data, err = io.ReadAll(io.LimitReader(f, secret.MaxValue+2))
			_ = f.Close() // it was only read
		}
	case isFile && cli.IsTerminal(stdin):
		fmt.Fprintf(a.stderr, "Value of %s (it is not shown): ", name)
		data, err = term.ReadPassword(int(stdin.Fd()))
		fmt.Fprintln(a.stderr)
	default:
		data, err = io.ReadAll(io.LimitReader(a.stdin, secret.MaxValue+2))
	}
	if err != nil {
		return "", usageError{fmt.Errorf("read the value: %w", err)}
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", usageError{errors.New("no value was given: type it, or give it on standard input or by --file")}
	}
	return value, nil
}

func newSecretDeleteCommand(a *app) *cobra.Command {
	var owner client.SecretOwner
	cmd := &cobra.Command{
		Use:     "delete NAME",
		Short:   "Delete a secret",
		Long:    "Delete a secret. Machines that are up lose it with their agent's next run.",
		Example: `  aloft secret delete --team NPM_TOKEN`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			if err := c.DeleteSecret(cmd.Context(), owner, args[0]); err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					Name string `json:"name"`
				}{args[0]})
			}
			a.out.Line("Deleted %s.", cli.Line(args[0], 80))
			return nil
		},
	}
	ownerFlags(cmd, &owner)
	return cmd
}

func newSecretRotateCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate",
		Short: "Seal every secret with new keys",
		Long: `Seal every secret with new keys, also those of other users; for the admin.

A server that keeps its key in a file makes a new one. After the configuration has
named another keeper this moves all secrets to it. It may be stopped and repeated.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			n, err := c.RotateSecrets(cmd.Context())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					Count int `json:"count"`
				}{n})
			}
			a.out.Line("Sealed %d secrets with new keys.", n)
			return nil
		},
	}
}

func newSecretExternalIDCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "external-id",
		Short: "Show what the trust policy of your AWS roles must ask for",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			id, err := c.ExternalID(cmd.Context())
			if err != nil {
				return err
			}
			if a.out.JSON() {
				return a.out.Value(struct {
					ExternalID string `json:"externalId"`
				}{id})
			}
			a.out.Line("%s", cli.Line(id, 80))
			return nil
		},
	}
}
