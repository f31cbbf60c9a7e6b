package main

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
	"aloft/internal/client"
)

func newEnvBuildCommand(a *app) *cobra.Command {
	var repo string
	var again bool
	cmd := &cobra.Command{
		Use:   "build ENVIRONMENT|REPO",
		Short: "Make an environment ready now",
		Long: `Make an environment ready now: a saved one, or what machines of a repository start
from, by its URL. Nothing is built where nothing has changed, unless --again is given.
A build that fails replaces nothing.

Ctrl-C stops the watching, not the build; ` + "`aloft env cancel`" + ` ends it.`,
		Example: `  aloft env build https://git.example.com/team/app
  aloft env build env-… --again`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if repo != "" && !client.IsEnvironment(args[0]) {
				return misuse(cmd, errors.New("--repo goes with a saved environment"))
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			b, err := c.StartBuild(cmd.Context(), args[0], repo, again, func(news string) {
				if !a.out.JSON() {
					a.out.Status(cli.Line(news, 100))
				}
			})
			a.out.Status("")
			if cmd.Context().Err() != nil {
				a.out.Note("No longer watching; the build goes on.")
				return &cli.Problem{Exit: cli.Interrupted, Code: "interrupted", Err: err}
			}
			if err != nil {
				return err
			}
			return a.showBuilt(b)
		},
	}
	cmd.Flags().StringVar(&repo, "repo", "", "`URL` of one of the environment's repositories; the first unless given")
	cmd.Flags().BoolVar(&again, "again", false, "build even if nothing has changed")
	return cmd
}

// showBuilt says how a build ended. Its error is of one that did not succeed.
func (a *app) showBuilt(b client.Build) error {
	id := cli.Line(b.ID, 80)
	if a.out.JSON() {
		if err := a.out.Value(b); err != nil {
			return err
		}
	}
	if b.Status != "SUCCEEDED" {
		hint := "see what it said with `aloft env logs " + id + "`"
		if b.FailureType == "INSTALL_FAILED" {
			hint += ", and look at what it left with `aloft env shell " + id + "`"
		}
		return &cli.Problem{Exit: cli.Failure, Code: "build_failed", Message: cli.Clean(cmp.Or(b.Message, "the build ended in "+b.Status)), Hint: hint}
	}
	if !a.out.JSON() {
		took := ""
		if b.EndedAt != nil {
			took = " in " + cli.Took(b.EndedAt.Sub(b.CreatedAt))
		}
		a.out.Line("%s is what machines start from%s.", a.out.Style(cli.Green, id), took)
	}
	return nil
}

func newEnvCancelCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "cancel BUILD|ENVIRONMENT|REPO",
		Short:   "End a build that is under way",
		Example: `  aloft env cancel bld-…`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
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
			if a.out.JSON() {
				return a.out.Value(map[string]string{"id": id})
			}
			a.out.Line("Cancelled %s. What machines start from is as it was.", cli.Line(id, 80))
			return nil
		},
	}
}

// newestBuild is the build of that id, or else the newest of an environment that
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
	return "", &cli.Problem{Exit: cli.Failure, Code: "not_found", Message: "there is no build of " + cli.Line(of, 200), Hint: "make one with `aloft env build`"}
}

func newEnvLogsCommand(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs BUILD|ENVIRONMENT|REPO",
		Short: "Print what a build says",
		Long: `Print what a build says: its steps, and all that install prints. Of an environment,
or a repository by its URL, it is the newest build. With -f it goes on until the
build has ended.`,
		Example: `  aloft env logs bld-…
  aloft env logs -f https://git.example.com/team/app`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			id, err := newestBuild(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			if a.out.JSON() {
				var log strings.Builder
				if err := c.BuildLog(cmd.Context(), id, follow, &log); err != nil {
					return err
				}
				return a.out.Value(map[string]string{"id": id, "log": log.String()})
			}
			return c.BuildLog(cmd.Context(), id, follow, &cleaned{out: a.out})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the build has ended")
	return cmd
}

// cleaned shows what a machine says, without what would steer a terminal.
type cleaned struct {
	out   *cli.Output
	words cli.Cleaner
	part  []byte // of a letter, at the end of what was written
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
		Short: "Open a shell in what a failed build has left",
		Long: `Open a shell in what a failed build has left: its machine is started on the disk as
install left it, with install's user and variables, in the checkout. It is stopped when
the last who came has left; what you change is there for the next. The machine is kept
for a day, unless the server's configuration says otherwise, or until the environment is
built again.

With a COMMAND it runs that, and exits with its code.`,
		Example: `  aloft env shell bld-…
  aloft env shell bld-… -- npm ls`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			command, tty := args[1:], false
			if len(command) > 0 && command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				command, tty = []string{"sh", "-c", `exec "${SHELL:-sh}" -l`}, true
				if _, _, err := a.needTerminal(); err != nil {
					return usageError{errors.New("this needs a terminal: run it in one, or give a command after --")}
				}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			id, err := newestBuild(ctx, c, args[0])
			if err != nil {
				return err
			}
			if !a.out.JSON() && tty {
				a.out.Note("Starting the machine of %s.", cli.Line(id, 80))
			}
			open := func(ctx context.Context) (*client.PTY, error) { return c.OpenBuildPTY(ctx, id) }
			code, err := a.exec(ctx, open, client.PTYRequest{Type: "spawn", Args: command, TTY: &tty})
			if err != nil {
				return err
			}
			if code != 0 && !tty {
				return &cli.Problem{Exit: code, Code: "exit"} // it has said what there was to say
			}
			return nil
		},
	}
}

// readText reads a file, "-" being standard input.
func (a *app) readText(name string) (string, error) {
	if name != "-" {
		return readFile(name)
	}
	data, err := io.ReadAll(io.LimitReader(a.stdin, maxText+1))
	if err == nil && len(data) > maxText {
		err = fmt.Errorf("standard input has more than %d bytes", maxText)
	}
	return string(data), err
}
