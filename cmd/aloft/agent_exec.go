package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentExecCommand(a *app) *cobra.Command {
	var tty bool
	var dir string
	var env []string
	cmd := &cobra.Command{
		Use:   "exec AGENT -- COMMAND [ARGUMENT...]",
		Short: "Run a command in an agent's machine",
		Long: `Run a command in an agent's machine.

The command uses your standard input, output and error, and its exit code becomes
this command's. It runs in the agent's working directory as the agent's user, and
is stopped when you disconnect.`,
		Example: `  aloft agent exec bc-… -- git log --oneline
  tar c . | aloft agent exec bc-… -- tar x -C /tmp
  aloft agent exec -t bc-… -- bash`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := args[1:]
			if command[0] == "--" {
				command = command[1:]
			}
			if len(command) == 0 {
				return usageError{errors.New("missing command after --")}
			}
			vars, err := variables(env)
			if err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			ask := client.PTYRequest{Type: "spawn", Args: command, Env: vars, Dir: dir, TTY: &tty}
			code, err := a.exec(cmd.Context(), agentPTY(c, args[0]), ask)
			if err == nil && code != 0 {
				return &cli.Problem{Exit: code, Code: "exit"} // the command has printed its own error
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after AGENT belong to COMMAND
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "allocate a terminal for the command")
	cmd.Flags().StringVar(&dir, "dir", "", "working directory (default: the agent's)")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "set a variable, as NAME=VALUE; may be repeated")
	return cmd
}

func variables(list []string) (map[string]string, error) {
	vars := make(map[string]string)
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, usageError{errors.New("-e must be NAME=VALUE, not " + kv)}
		}
		vars[name] = value
	}
	return vars, nil
}

// exec runs a command and returns its exit code. Losing the connection ends the
// command.
func (a *app) exec(ctx context.Context, open openPTY, ask client.PTYRequest) (int, error) {
	if *ask.TTY {
		in, out, err := a.needTerminal()
		if err != nil {
			return 0, err
		}
		ask.Columns, ask.Rows = sizeOf(out)
		return a.inRawMode(ctx, in, out, func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
			return attachOnce(ctx, open, ask, out, keys, sizes)
		})
	}
	p, err := open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = p.Close() }()
	if err := p.Ask(ctx, ask); err != nil {
		return 0, errors.Join(errCut, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan []byte)
	go read(ctx, a.stdin, keys) // a blocked read ends with the process
	go typing(ctx, p, keys, nil, nil, false)
	return watchPTY(ctx, p, a.stdout, a.stderr)
}
