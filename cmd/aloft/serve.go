package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/redact"
	"aloft/internal/server"
)

func newServeCommand(a *app) *cobra.Command {
	o := server.Options{
		Data:     command.DataDir(a.Getenv),
		Listen:   cmp.Or(a.Getenv("ALOFT_LISTEN"), "127.0.0.1:8080"),
		Embedded: a.Embedded,
		Version:  version,
	}
	configFile := a.Getenv("ALOFT_CONFIG")
	var verbose, example bool
	var address string // of the database
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: the REST API, the agent loops, and the network gateway of machines.

The first start writes an admin API key to admin.key in the data folder. SIGTERM stops
the server without losing anything: machines stay up, and runs continue at the next
start.`,
		Example: `  aloft serve --example > aloft.yaml
  sudo aloft serve --config /etc/aloft.yaml
  sudo aloft serve --store postgres://aloft@db.example.com/aloft
  sudo ALOFT_LISTEN=127.0.0.1:0 aloft serve --data /srv/aloft`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				_, err := io.WriteString(cmd.OutOrStdout(), server.ExampleConfig)
				return err
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			config, err := server.LoadConfig(configFile, a.Getenv)
			if err != nil {
				return err
			}
			found := ""
			if configFile == "" {
				found = useFoundModel(cmd.Context(), &config, a.Getenv)
			}
			if config.Store, err = server.StoreAddress(address, a.Getenv("ALOFT_STORE"), config.Store); err != nil {
				return err
			}
			log := redact.New(config.SecretValues()).Writer(a.Stderr)
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
			s, err := server.Open(cmd.Context(), o, config, logger)
			if err != nil {
				return err
			}
			// One write, so that whoever waits for the first line has all of them.
			text := fmt.Sprintf("Aloft %s listens at %s\nThe admin API key is in %s\n", version, s.URL, s.KeyFile)
			if link := s.FirstLink(cmd.Context()); link != "" {
				text += o.SignInText(link, a.Getenv("JOURNAL_STREAM") != "")
			}
			fmt.Fprint(cmd.OutOrStdout(), text+found+config.Missing(configFile))
			return s.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&configFile, "config", configFile, "configuration `file` (ALOFT_CONFIG)")
	cmd.Flags().StringVar(&o.Data, "data", o.Data, "data `folder` (ALOFT_DATA)")
	cmd.Flags().StringVar(&address, "store", "", "`address` of a PostgreSQL database to use instead of a file in the data folder (ALOFT_STORE; use that for an address with a password)")
	cmd.Flags().StringVar(&o.Listen, "listen", o.Listen, "`address` to listen on; port 0 picks a free one (ALOFT_LISTEN)")
	cmd.Flags().BoolVar(&example, "example", false, "print an example configuration and exit")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "log debug messages")
	return cmd
}

// useFoundModel makes a server without a configuration file use the model of an API
// key in the environment, and returns a message about that. A local model server
// is named but not used: any user of this host may have started it.
func useFoundModel(ctx context.Context, config *server.Config, getenv func(string) string) string {
	if m, variable := server.ModelOfKey(getenv); variable != "" {
		config.Models, config.DefaultModel = []server.ModelConfig{m}, m.ID
		return fmt.Sprintf("Agents use the model %s, with the key in %s.\n", m.Name, variable)
	}
	if m, ok := server.LocalModel(ctx, server.LocalModels); ok {
		return fmt.Sprintf("A model server answers at %s with the model %s; to use it, name it in the configuration.\n", m.BaseURL, cli.Line(m.Name, 100))
	}
	return ""
}
