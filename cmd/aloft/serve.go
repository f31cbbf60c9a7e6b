package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"aloft/internal/redact"
)

// serveOptions are the flags of aloft serve.
type serveOptions struct {
	Config string // a file; "" is the default configuration
	Data   string // the folder that holds everything the server keeps
	Listen string // host:port
}

func newServeCommand(getenv func(string) string, stderr io.Writer) *cobra.Command {
	o := serveOptions{
		Config: getenv("ALOFT_CONFIG"),
		Data:   dataDir(getenv),
		Listen: cmp.Or(getenv("ALOFT_LISTEN"), "127.0.0.1:8080"),
	}
	var verbose, example bool
	var address string // of the store
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: the REST API, the loops of agents, and the gateway of their machines.

The first start writes an admin API key to admin.key in the data folder. SIGTERM
ends the server and loses nothing: runs go on with the next start, and machines
stay up until then.`,
		Example: `  aloft serve --example > aloft.yaml
  sudo aloft serve --config /etc/aloft.yaml
  sudo aloft serve --store postgres://aloft@db.example.com/aloft
  sudo ALOFT_LISTEN=127.0.0.1:0 aloft serve --data /srv/aloft`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if example {
				_, err := io.WriteString(cmd.OutOrStdout(), exampleConfig)
				return err
			}
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			config, err := loadConfig(o.Config, getenv)
			if err != nil {
				return err
			}
			if config.Store, err = storeAddress(address, getenv("ALOFT_STORE"), config.Store); err != nil {
				return err
			}
			log := redact.New(config.secrets()).Writer(stderr)
			logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))
			return serve(cmd.Context(), o, config, logger, func(s *server) {
				fmt.Fprintf(cmd.OutOrStdout(), "Aloft %s listens at %s\nThe admin API key is in %s\n", version, s.URL, s.KeyFile)
				if link := s.firstLink(cmd.Context()); link != "" {
					fmt.Fprintf(cmd.OutOrStdout(), "Sign in at %s\nThe link is good once, for three days; each start makes another until somebody has a way to sign in.\n", link)
				}
				fmt.Fprint(cmd.OutOrStdout(), config.lacks(o.Config))
			})
		},
	}
	cmd.Flags().StringVar(&o.Config, "config", o.Config, "configuration `file` (ALOFT_CONFIG)")
	cmd.Flags().StringVar(&o.Data, "data", o.Data, "data `folder` (ALOFT_DATA)")
	cmd.Flags().StringVar(&address, "store", "", "`address` of a PostgreSQL database that keeps the agents, in place of a file in the data folder (ALOFT_STORE, which is the place for one with a password)")
	cmd.Flags().StringVar(&o.Listen, "listen", o.Listen, "`address` to listen on; port 0 takes a free one (ALOFT_LISTEN)")
	cmd.Flags().BoolVar(&example, "example", false, "print a configuration to begin with, and end")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "log more")
	return cmd
}

// serve runs a server until ctx ends. onReady is called once it listens.
func serve(ctx context.Context, o serveOptions, c serverConfig, logger *slog.Logger, onReady func(*server)) error {
	s, err := openServer(ctx, o, c, logger)
	if err != nil {
		return err
	}
	onReady(s)
	return s.Run(ctx)
}
