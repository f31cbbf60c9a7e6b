// Command aloft is the Aloft server and its command-line client. This package holds the
// table of commands, and the commands that start a server.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/accounts"
	"aloft/internal/cli/agents"
	"aloft/internal/cli/command"
	"aloft/internal/cli/envs"
	"aloft/internal/cli/host"
	"aloft/internal/cli/machines"
	"aloft/internal/cli/settings"
	"aloft/internal/fault"
	"aloft/internal/server"
)

// version is set at build time.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	a := newApp(os.Getenv)
	a.standalone = true
	code := a.run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// app is the state that all commands share, with the methods of this package.
type app struct {
	*command.App
	standalone bool // this process runs only the command, and is not a test
}

// newApp returns the state for one command with the given environment.
func newApp(getenv func(string) string) *app {
	return &app{App: &command.App{Config: command.NewConfig(getenv), Getenv: getenv, Version: version, Embedded: binaries()}}
}

// commands returns all commands.
func (a *app) commands() []*cobra.Command {
	return slices.Concat(
		agents.Commands(a.App, machines.AgentCommands(a.App)...),
		machines.Commands(a.App),
		envs.Commands(a.App),
		accounts.Commands(a.App),
		settings.Commands(a.App),
		host.Commands(a.App),
		[]*cobra.Command{newServeCommand(a), newHostDaemonCommand(a), newVersionCommand(a)},
	)
}

// run runs a command and returns its exit code. All inputs are arguments, so tests can
// run whole commands in their own process.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newApp(getenv).run(ctx, args, stdin, stdout, stderr)
}

// run calls the function [run] with the app's environment.
func (a *app) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a.Stdin, a.Stdout, a.Stderr = stdin, stdout, stderr
	a.ConfigureOutput()
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return cli.OK
	}
	p := problemOf(err)
	a.Out.Fail(p)
	return p.Exit
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "aloft",
		Short: "Run coding agents in the background, on your own machines",
		Long: `Run coding agents in the background, on your own machines.

Give an agent a repository and a task. It works in its own isolated machine and pushes
a branch. Watch it, answer its questions, or do something else meanwhile.

Without a command, on a terminal, aloft opens a control panel: the list of agents,
their conversations, and keys to control them.`,
		Example: `  aloft run --repo https://git.example.com/team/app "Fix the failing test"
  aloft agent list
  aloft agent logs --follow bc-…`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, _ := cmd.Flags().GetBool("version"); asked {
				return a.printVersion()
			}
			if in, out, err := a.NeedTerminal(); err == nil && !a.Config.Dumb && !a.Config.JSON {
				return a.panel(cmd.Context(), in, out)
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.ConfigureOutput() // the flags are parsed now
			return a.ResolveAgents(cmd, args)
		},
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(command.Misuse)
	a.Config.AddFlags(root.PersistentFlags())
	root.Flags().Bool("version", false, "print the version")
	root.AddCommand(a.commands()...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	a.AddCompletion(root)
	checkArgs(root)
	return root
}

// checkArgs makes every command report a wrong number of arguments and conflicting
// flags as a usage error, with the usage line as the hint.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				err = cmd.ValidateFlagGroups() // cobra checks too, but returns another type of error
			}
			if err != nil {
				return didYouMean(cmd, args, command.Misuse(cmd, err))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// didYouMean adds to err's hint the commands that are spelled like the unknown command
// in args.
func didYouMean(cmd *cobra.Command, args []string, err error) error {
	p, ok := errors.AsType[*cli.Problem](err)
	if !ok || len(args) == 0 || !cmd.HasSubCommands() {
		return err
	}
	cmd.SuggestionsMinimumDistance = 2 // maximum edit distance
	like := cmd.SuggestionsFor(args[0])
	if len(like) == 0 {
		return err
	}
	slices.Sort(like)
	for i, name := range like {
		like[i] = "`" + cmd.CommandPath() + " " + name + "`"
	}
	p.Hint = "did you mean " + strings.Join(like[:min(len(like), 3)], " or ") + "?"
	return p
}

// problemOf converts this program's errors; package cli handles the others.
func problemOf(err error) *cli.Problem {
	p := *cli.ProblemOf(err)
	if u, ok := errors.AsType[server.UsageError](err); ok {
		p.Exit, p.Code, p.Message = cli.Usage, "usage", u.Error()
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		// The text around a fault says where the fault happened. The fault's advice becomes
		// the hint.
		p.Code, p.Hint = f.Code, f.Advice
		if p.Hint != "" {
			p.Message = strings.Replace(p.Message, " ("+p.Hint+")", "", 1)
		}
	}
	return &p
}
