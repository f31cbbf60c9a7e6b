package settings

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newConnectCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Show, connect or disconnect the server's models and git servers",
		Long: `Show, connect or disconnect the server's models and git servers; admins only.

The server uses them in addition to its configuration file, which takes precedence. It
tests a model or a token before it saves it, stores it encrypted, and then reloads its
configuration. Running agents continue.`,
		Example: `  aloft connect
  aloft connect model claude-sonnet-4-5 --provider anthropic
  aloft connect model local --provider openai --base-url http://127.0.0.1:11434/v1 --name qwen3:8b --no-key
  aloft connect git github.com
  aloft connect git git.example.com --forge gitea --file token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			s, err := c.Server(cmd.Context())
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(s)
			}
			a.showServer(s)
			return nil
		},
	}
	cmd.AddCommand(newConnectModelCommand(a), newConnectGitCommand(a), newDisconnectCommand(a))
	return cmd
}

func (a *app) showServer(s client.Server) {
	rows := [][]string{{"KIND", "NAME", "WHERE", "SOURCE"}}
	for _, m := range s.Models {
		where := m.Provider
		if m.BaseURL != "" {
			where += " at " + m.BaseURL
		}
		rows = append(rows, []string{"model", cli.Line(m.ID, 80), cli.Line(where, 120), m.Source})
	}
	for _, g := range s.GitServers {
		rows = append(rows, []string{"git server", cli.Line(g.Host, 80), cli.Line(g.URL, 120), g.Source})
	}
	a.Out.Table(rows)
	for _, line := range s.Ignored {
		a.Out.Line("not used: %s", cli.Line(line, 300))
	}
	if l := s.LocalModel; l != nil {
		a.Out.Line("A model server answers at %s; to use it: aloft connect model local --provider openai --base-url %[1]s --name %s --no-key", cli.Line(l.BaseURL, 100), cli.Line(l.Name, 100))
	}
}

func newConnectModelCommand(a *app) *cobra.Command {
	var in client.NewModel
	var file string
	var noKey bool
	cmd := &cobra.Command{
		Use:   "model ID",
		Short: "Try a model and connect it",
		Long: `Try a model and connect it.

ID is the name for --model. The command asks for the API key without echo, or reads it
from a pipe or --file.`,
		Example: `  aloft connect model claude-sonnet-4-5 --provider anthropic`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if !noKey {
				if in.APIKey, err = a.ReadSecret("the API key", file); err != nil {
					return err
				}
			}
			done, err := c.ConnectModel(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return a.connected(done, "The model answers and is connected as ")
		},
	}
	cmd.Flags().StringVar(&in.Provider, "provider", "", "anthropic, openai or google; required")
	cmd.Flags().StringVar(&in.API, "api", "", "for openai: responses or chat; default responses, or chat with --base-url")
	cmd.Flags().StringVar(&in.Name, "name", "", "the provider's `name` of the model; default ID")
	cmd.Flags().StringVar(&in.BaseURL, "base-url", "", "`address` of the API, if it is not the provider's own")
	cmd.Flags().StringVar(&file, "file", "", "read the API key from this `file`")
	cmd.Flags().BoolVar(&noKey, "no-key", false, "the model needs no API key")
	cmd.MarkFlagsMutuallyExclusive("file", "no-key")
	_ = cmd.MarkFlagRequired("provider") // fails only for an unknown flag
	return cmd
}

func newConnectGitCommand(a *app) *cobra.Command {
	var in client.NewGitServer
	var file string
	var plain bool
	cmd := &cobra.Command{
		Use:   "git HOST",
		Short: "Check a token of a git server and connect it",
		Long: `Check a token of a git server and connect it.

The token is used for all repositories of the host. The command asks for it without
echo, or reads it from a pipe or --file.`,
		Example: `  aloft connect git github.com
  aloft connect git git.example.com:3000 --forge gitea --http`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			if plain {
				in.Scheme = "http"
			}
			if in.Token, err = a.ReadSecret("the token", file); err != nil {
				return err
			}
			done, err := c.ConnectGitServer(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return a.connected(done, "Connected ")
		},
	}
	cmd.Flags().StringVar(&in.Forge, "forge", "", "kind of the host's API: github, gitlab, gitea (also for Forgejo) or none; required unless the host is well known")
	cmd.Flags().StringVar(&in.Username, "username", "", "`name` of the user for git, if the host needs one with a token")
	cmd.Flags().BoolVar(&plain, "http", false, "the host has no TLS")
	cmd.Flags().StringVar(&file, "file", "", "read the token from this `file`")
	return cmd
}

func newDisconnectCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "remove model|git NAME",
		Short: "Disconnect a model or a git server",
		Long:  "Disconnect a model or a git server. Entries of the server's configuration file can only be removed there.",
		Example: `  aloft connect remove model local
  aloft connect remove git git.example.com`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"model", "git"},
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			switch args[0] {
			case "model":
				err = c.DisconnectModel(cmd.Context(), args[1])
			case "git":
				err = c.DisconnectGitServer(cmd.Context(), args[1])
			default:
				return command.UsageError(fmt.Errorf("invalid kind %q: must be model or git", args[0]))
			}
			if err != nil {
				return err
			}
			return a.connected(client.Connected{ID: args[1]}, "Disconnected ")
		},
	}
}

// connected prints the result of a connection.
func (a *app) connected(done client.Connected, message string) error {
	if a.Out.JSON() {
		return a.Out.Value(done)
	}
	if done.Login != "" {
		done.ID += " as " + done.Login
	}
	a.Out.Line("%s%s.", message, cli.Line(done.ID, 200))
	if len(done.Lacks) > 0 {
		a.Out.Line("The token may not push and open pull requests: create one with %s.", cli.Line(strings.Join(done.Lacks, " and "), 300))
	}
	return nil
}
