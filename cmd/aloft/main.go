// Command aloft is the Aloft server and its command-line client. This package holds
// only flags, texts and wiring.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/fault"
	"aloft/internal/server"
)

// version is set at build time.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// usageError is an error in flags or arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// app is the state that the commands share.
type app struct {
	config config
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	out    *cli.Output
	output bool // the flag --output
}

// commands returns all commands, in the order of the help.
func (a *app) commands() []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(a),
		newAgentCommand(a),
		newEnvCommand(a),
		newApprovalsCommand(a),
		newRulesCommand(a),
		newHooksCommand(a),
		newModelsCommand(a),
		newRepositoriesCommand(a),
		newSecretCommand(a),
		newMCPCommand(a),
		newMemberCommand(a),
		newKeyCommand(a),
		newMeCommand(a),
		newSettingsCommand(a),
		newAccessCommand(a),
		newUsageCommand(a),
		newAuditCommand(a),
		newEventsCommand(a),
		newLoginCommand(a),
		newConfigSSHCommand(a),
		newSSHProxyCommand(a),
		newServeCommand(a.getenv, a.stderr),
		newDemoCommand(a),
		newImageCommand(a),
		newSnapshotCommand(a),
		newSandboxCommand(a),
		newDoctorCommand(a),
		newIdentityCommand(a),
		newGatewayCommand(a.stderr),
		newVersionCommand(a),
	}
}

// run runs a command and returns its exit code. Everything it needs is an argument, so
// tests can run whole commands in process.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{config: newConfig(getenv), getenv: getenv, stdin: stdin, stdout: stdout, stderr: stderr}
	a.speak()
	root := newRootCommand(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return cli.OK
	}
	p := problemOf(err)
	a.out.Fail(p)
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
			if in, out, err := a.needTerminal(); err == nil && !a.config.Dumb && !a.config.JSON {
				return a.panel(cmd.Context(), in, out)
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.speak() // the flags are parsed now
			return a.agentIDs(cmd, args)
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(misuse)
	a.config.addFlags(root.PersistentFlags())
	root.Flags().Bool("version", false, "print the version")
	root.AddCommand(a.commands()...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	checkArgs(root)
	return root
}

// speak creates the output that the configuration asks for.
func (a *app) speak() {
	a.out = cli.New(a.stdout, a.stderr, cli.Options{JSON: a.config.JSON, NoColor: a.config.NoColor, Dumb: a.config.Dumb})
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
				return misuse(cmd, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

func misuse(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("usage: %s; see `%s --help`", cmd.UseLine(), cmd.CommandPath())
	return &cli.Problem{Exit: cli.Usage, Code: "usage", Message: err.Error(), Hint: hint, Err: err}
}

// problemOf converts this program's errors; package cli handles the others.
func problemOf(err error) *cli.Problem {
	p := *cli.ProblemOf(err)
	if u, ok := errors.AsType[usageError](err); ok {
		p.Exit, p.Code, p.Message = cli.Usage, "usage", u.Error()
	}
	if u, ok := errors.AsType[server.UsageError](err); ok {
		p.Exit, p.Code, p.Message = cli.Usage, "usage", u.Error()
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		// The text around a fault says where it happened. Its advice becomes the hint.
		p.Code, p.Hint = f.Code, f.Advice
		if p.Hint != "" {
			p.Message = strings.Replace(p.Message, " ("+p.Hint+")", "", 1)
		}
	}
	return &p
}
