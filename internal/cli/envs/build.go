package envs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newEnvBuildCommand(a *app) *cobra.Command {
	var repo string
	var again bool
	cmd := &cobra.Command{
		Use:   "build ENVIRONMENT|REPO",
		Short: "Build an environment now",
		Long: `Build an environment now: a saved one, or that of a repository, given by its URL.
If nothing has changed, the last build is kept unless --again is given. A failed
build never replaces the last good one.

Ctrl-C stops watching, not the build; stop the build with ` + "`aloft env cancel`" + `.`,
		Example: `  aloft env build https://git.example.com/team/app
  aloft env build env-… --again`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if repo != "" && !client.IsEnvironment(args[0]) {
				return command.Misuse(cmd, errors.New("--repo can only be used with a saved environment"))
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			b, err := c.StartBuild(cmd.Context(), args[0], repo, again, func(news string) {
				if !a.Out.JSON() {
					a.Out.Status(cli.Line(news, 100))
				}
			})
			a.Out.Status("")
			if cmd.Context().Err() != nil {
				a.Out.Note("Stopped watching. The build keeps running.")
				return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
			}
			if err != nil {
				return err
			}
			return a.showBuilt(b)
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "`URL` of one of the environment's repositories (default: the first)")
	cmd.Flags().BoolVar(&again, "again", false, "build even if nothing has changed")
	return cmd
}

// showBuilt prints how a build ended. It returns an error if the build failed.
func (a *app) showBuilt(b client.Build) error {
	id := cli.Line(b.ID, 80)
	if a.Out.JSON() {
		if err := a.Out.Value(b); err != nil {
			return err
		}
	}
	if b.Status != "SUCCEEDED" {
		hint := "read its log with `aloft env logs " + id + "`"
		if b.FailureType == "INSTALL_FAILED" {
			hint += ", and open a shell in its machine with `aloft env shell " + id + "`"
		}
		return &cli.Problem{Exit: cli.Failure, Code: "build_failed", Message: cli.Clean(cmp.Or(b.Message, "the build ended as "+b.Status)), Hint: hint}
	}
	if !a.Out.JSON() {
		took := ""
		if b.EndedAt != nil {
			took = " in " + cli.Took(b.EndedAt.Sub(b.CreatedAt))
		}
		a.Out.Line("Built %s%s. Machines now start from it.", a.Out.Style(cli.Green, id), took)
	}
	return nil
}

func newEnvCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel BUILD|ENVIRONMENT|REPO",
		Short:   "Cancel a running build",
		Example: `  aloft env cancel bld-…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			id, err := newestBuild(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if err := c.CancelBuild(cmd.Context(), id); err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(map[string]string{"id": id})
			}
			a.Out.Line("Cancelled %s. Machines still start from the previous build.", cli.Line(id, 80))
			return nil
		},
	}
}

// newestBuild returns the id of the build that the argument names. If the
// argument names an environment, it returns the environment's newest build that
// was not skipped.
func newestBuild(ctx context.Context, c *client.Client, of string) (string, error) {
	if strings.HasPrefix(of, "bld-") {
		return of, nil
	}
	list, err := c.Builds(ctx, of)
	if err != nil {
		return "", err
	}
	for _, b := range list {
		if b.Status != "SKIPPED" {
			return b.ID, nil
		}
	}
	return "", &cli.Problem{Exit: cli.Failure, Code: "not_found", Message: "no build of " + cli.Line(of, 200), Hint: "start one with `aloft env build`"}
}

func newEnvLogsCommand(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs BUILD|ENVIRONMENT|REPO",
		Short: "Print a build's log",
		Long: `Print a build's log: its steps and the output of install. For an environment or a
repository URL, print the log of the newest build. With -f, keep printing until the
build ends.`,
		Example: `  aloft env logs bld-…
  aloft env logs -f https://git.example.com/team/app`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			id, err := newestBuild(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				var log strings.Builder
				if err := c.BuildLog(cmd.Context(), id, follow, &log); err != nil {
					return err
				}
				return a.Out.Value(map[string]string{"id": id, "log": log.String()})
			}
			return c.BuildLog(cmd.Context(), id, follow, &cleaned{out: a.Out})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing until the build ends")
	return cmd
}

// cleaned is a writer that removes terminal control sequences from a machine's output.
type cleaned struct {
	out   *cli.Output
	words cli.Cleaner
	part  []byte // incomplete UTF-8 sequence at the end of the last write
}

// Write implements [io.Writer].
func (c *cleaned) Write(p []byte) (int, error) {
	text, whole := slices.Concat(c.part, p), 0
	for whole < len(text) && utf8.FullRune(text[whole:]) {
		_, n := utf8.DecodeRune(text[whole:])
		whole += n
	}
	c.out.Text(c.words.Clean(string(text[:whole])))
	c.part = bytes.Clone(text[whole:])
	return len(p), nil
}

var _ io.Writer = (*cleaned)(nil)

func newEnvShellCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "shell BUILD [-- COMMAND [ARGUMENT...]]",
		Short: "Open a shell in the machine of a failed build",
		Long: `Open a shell in the machine of a failed build. The machine starts with the disk as
install left it, and the shell runs in the checkout with install's user and
variables. The machine stops when the last shell is closed; changes are kept for the
next one. It is deleted after a day, or after the time that the server's
configuration sets, or when the environment is built again.

With a COMMAND, run that instead and exit with its code.`,
		Example: `  aloft env shell bld-…
  aloft env shell bld-… -- npm ls`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			argv, tty := args[1:], false
			if len(argv) > 0 && argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				argv, tty = []string{"sh", "-c", `exec "${SHELL:-sh}" -l`}, true
				if _, _, err := a.NeedTerminal(); err != nil {
					return command.UsageError(errors.New("not a terminal: run this in a terminal, or give a command after --"))
				}
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			id, err := newestBuild(ctx, c, args[0])
			if err != nil {
				return err
			}
			if !a.Out.JSON() && tty {
				a.Out.Note("Starting the machine of %s.", cli.Line(id, 80))
			}
			open := func(ctx context.Context) (*client.PTY, error) { return c.OpenBuildPTY(ctx, id) }
			code, err := a.RunPTY(ctx, open, client.PTYRequest{Type: "spawn", Args: argv, TTY: &tty})
			if err != nil {
				return err
			}
			if code != 0 && !tty {
				return &cli.Problem{Exit: code, Code: "exit"} // the command has printed its own error
			}
			return nil
		},
	}
}

// readText reads a file, or standard input if name is "-".
func (a *app) readText(name string) (string, error) {
	if name != "-" {
		return readFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(a.Stdin, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("standard input is larger than %d bytes", maxText)
	}
	return string(data), err
}
