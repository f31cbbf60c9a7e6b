package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/control/hostd"
	"aloft/internal/redact"
	"aloft/internal/server"
	"aloft/internal/server/unprivileged"
)

func newServeCommand(a *app) *cobra.Command {
	c := a.newServing()
	c.options.Listen = cmp.Or(a.Getenv("ALOFT_LISTEN"), "127.0.0.1:8080")
	var verbose, example bool
	var userName string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server: the REST API, the agent loops, and the network gateway of machines.

The first start writes an admin API key to admin.key in the data folder. SIGTERM stops
the server without losing anything: machines stay up, and runs continue at the next
start. SIGHUP makes it read its configuration again.`,
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
			if verbose {
				c.level = slog.LevelDebug
			}
			c.out = cmd.OutOrStdout()
			if err := c.completeData(); err != nil {
				return err
			}
			if c.hostDaemonAt = a.Getenv(hostDaemonVariable); c.hostDaemonAt != "" || !a.standalone || os.Geteuid() != 0 {
				return serve(cmd.Context(), c)
			}
			u, err := unprivileged.FindUser(userName)
			if err != nil {
				return err
			}
			if u.ID == 0 {
				if err := c.giveData(u); err != nil {
					return err
				}
				return serve(cmd.Context(), c)
			}
			return serveAsUser(cmd.Context(), c, u)
		},
	}
	c.addFlags(cmd)
	cmd.Flags().StringVar(&c.store, "store", "", "`address` of a PostgreSQL database to use instead of a file in the data folder (ALOFT_STORE; use that for an address with a password)")
	cmd.Flags().StringVar(&c.options.Listen, "listen", c.options.Listen, "`address` to listen on; port 0 picks a free one (ALOFT_LISTEN)")
	cmd.Flags().StringVar(&userName, "user", "", "`name` of the user that the server runs as if root starts it; with root, it keeps the rights of root (default "+unprivileged.UserName+" if it exists)")
	cmd.Flags().BoolVar(&example, "example", false, "print an example configuration and exit")
	cmd.Flags().BoolVar(&verbose, "verbose", false, "log debug messages")
	return cmd
}

// serving holds the settings with which a server is started.
type serving struct {
	options      server.Options
	file, store  string // values of the flags
	hostDaemonAt string // address of the host-daemon; "" without one
	level        slog.Level
	getenv       func(string) string
	out, log     io.Writer
}

// newServing returns the settings of the environment.
func (a *app) newServing() serving {
	return serving{
		options: server.Options{Data: command.DataDir(a.Getenv), Embedded: a.Embedded, Version: version},
		file:    a.Getenv("ALOFT_CONFIG"), level: slog.LevelInfo, getenv: a.Getenv, log: a.Stderr,
	}
}

// addFlags adds the flags that the server and the host-daemon share.
func (c *serving) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.file, "config", c.file, "configuration `file` of the server (ALOFT_CONFIG)")
	cmd.Flags().StringVar(&c.options.Data, "data", c.options.Data, "data `folder` of the server (ALOFT_DATA)")
}

// completeData makes the path of the data folder absolute.
func (c *serving) completeData() (err error) {
	if c.options.Data, err = filepath.Abs(c.options.Data); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// giveData makes the user the owner of the data folder.
func (c serving) giveData(u unprivileged.User) error {
	if err := unprivileged.GiveData(c.options.Data, u); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	return nil
}

// newLogger returns a logger that redacts the configuration's secrets, and a function
// that replaces these secrets. The caller must close log.
func (c serving) newLogger(config server.Config) (logger *slog.Logger, setSecrets func(map[string]string), log io.Closer) {
	var secrets atomic.Pointer[redact.Redactor]
	setSecrets = func(values map[string]string) { secrets.Store(redact.New(values)) }
	setSecrets(config.SecretValues())
	live := redact.NewLive(c.log, secrets.Load)
	return slog.New(slog.NewTextHandler(live, &slog.HandlerOptions{Level: c.level})), setSecrets, live
}

// serve runs a server until ctx is done. After a reload, and after SIGHUP, it opens the
// server again with the current configuration. If the current configuration is invalid,
// serve reports the error, and the server continues with the previous one.
func serve(ctx context.Context, c serving) (err error) {
	if c.getenv(inheritVariable) != "" {
		syscall.CloseOnExec(firstFile)
		syscall.CloseOnExec(lockFile)
		if c.options.Listener, err = net.FileListener(os.NewFile(firstFile, "listener")); err != nil {
			return err
		}
	}
	config, found, err := c.load(ctx)
	if err != nil {
		return err
	}
	logger, setSecrets, log := c.newLogger(config)
	defer func() { err = errors.Join(err, log.Close()) }()
	c.options.Secrets = setSecrets

	hangUp := make(chan os.Signal, 1)
	signal.Notify(hangUp, syscall.SIGHUP)
	defer signal.Stop(hangUp)
	s, err := server.Open(ctx, c.options, config, logger)
	if err != nil {
		return err
	}
	// Use one write, so that a program that waits for the first line gets all
	// lines.
	text := fmt.Sprintf("Aloft %s listens at %s\nThe admin API key is in %s\n", version, s.URL, s.KeyFile)
	if link := s.FirstLink(ctx); link != "" {
		text += c.options.SignInText(link, c.getenv("JOURNAL_STREAM") != "")
	}
	fmt.Fprint(c.out, text+found+s.Missing(c.file))
	for {
		running, stopped := context.WithCancel(ctx)
		go func() {
			select {
			case <-running.Done():
			case <-hangUp:
				s.Reload()
			}
		}()
		err := s.Run(ctx)
		stopped()
		if !errors.Is(err, server.ErrReload) {
			return err
		}
		c.options.Listener = s.Listener()
		next, _, err := c.load(ctx)
		if err != nil {
			logger.Error("the configuration is not valid; the server keeps the previous one", "error", err)
			next = config
		}
		if s, err = server.Open(ctx, c.options, next, logger); err != nil {
			logger.Error("cannot start with the new configuration; the server keeps the previous one", "error", err)
			if s, err = server.Open(ctx, c.options, config, logger); err != nil {
				return err
			}
			next = config
		}
		config = next
		logger.Info("the server has reloaded its configuration")
	}
}

// loadFromHostDaemon reads the configuration through the host-daemon, because the server
// may not be able to read the file. config.Host opens the host for the same text.
func (c serving) loadFromHostDaemon(ctx context.Context) (server.Config, error) {
	client := hostd.NewClient(c.hostDaemonAt)
	loaded, err := client.Load(ctx)
	if err != nil {
		return server.DefaultConfig(), err
	}
	config, err := server.ParseConfig(c.file, loaded.Text, c.getenv)
	config.UseScripts(loaded.Files)
	config.Host = func(ctx context.Context) (*hostd.Host, error) { return client.Open(ctx, loaded) }
	return config, err
}

// load reads the configuration. found is a message about a model that was found
// without a configuration.
func (c serving) load(ctx context.Context) (config server.Config, found string, err error) {
	if c.hostDaemonAt != "" {
		config, err = c.loadFromHostDaemon(ctx)
	} else {
		config, err = server.LoadConfig(c.file, c.getenv)
	}
	if err != nil {
		return config, "", err
	}
	if c.file == "" {
		found = useFoundModel(ctx, &config, c.getenv)
	}
	config.Store, err = server.StoreAddress(c.store, c.getenv("ALOFT_STORE"), config.Store)
	return config, found, err
}

// useFoundModel makes a server without a configuration file use a model for which the
// environment has an API key, and returns a message about that. The message also names a
// local model server, but the server does not use it: any user of this host may have
// started it.
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
