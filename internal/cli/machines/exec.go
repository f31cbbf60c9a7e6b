package machines

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
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
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			argv := args[1:]
			if argv[0] == "--" {
				argv = argv[1:]
			}
			if len(argv) == 0 {
				return command.UsageError(errors.New("missing command after --"))
			}
			vars, err := variables(env)
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			ask := client.PTYRequest{Type: "spawn", Args: argv, Env: vars, Dir: dir, TTY: &tty}
			code, err := a.RunPTY(cmd.Context(), agentPTY(c, args[0]), ask)
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
			return nil, command.UsageError(errors.New("-e must be NAME=VALUE, not " + kv))
		}
		vars[name] = value
	}
	return vars, nil
}
