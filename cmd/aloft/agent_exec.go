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

What it reads and prints is yours, and its exit code is this command's. It runs
where the agent works, as the agent's user, and ends when you go.`,
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
				return usageError{errors.New("there is no command after --")}
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
				return &cli.Problem{Exit: code, Code: "exit"} // it has said what there was to say
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the agent is the command's
	cmd.Flags().BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	cmd.Flags().StringVar(&dir, "dir", "", "folder to run it in; where the agent works unless given")
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "a variable for it, as NAME=VALUE")
	return cmd
}

func variables(list []string) (map[string]string, error) {
	vars := make(map[string]string)
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, usageError{errors.New("-e takes NAME=VALUE, not " + kv)}
		}
		vars[name] = value
	}
	return vars, nil
}

// exec runs a command and returns its exit code. A cut connection has ended it.
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
	go read(ctx, a.stdin, keys) // a read that waits ends with the process
	go typing(ctx, p, keys, nil, nil, false)
	return watchPTY(ctx, p, a.stdout, a.stderr)
}
