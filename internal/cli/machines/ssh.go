package machines

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentSSHCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh AGENT [-- ARG…]",
		Short: "Open a shell in an agent's machine over SSH",
		Long: `Open a shell in an agent's machine, in its workspace, using this computer's ssh.
Arguments after -- are passed to ssh: options, and a command to run. A sleeping
machine is woken. The agent keeps running; pause it with 'aloft agent pause'.`,
		Example: `  aloft agent ssh bc-…
  aloft agent ssh bc-… -- make test
  aloft agent ssh bc-… -- -N -L 3000:localhost:3000`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := a.Connect(); err != nil { // check the connection first, because this error is clearer than ssh's
				return err
			}
			program, err := exec.LookPath("ssh")
			if err != nil {
				return &cli.Problem{
					Exit: cli.Failure, Code: "no_ssh", Message: "ssh is not installed on this computer", Err: err,
					Hint: "install the OpenSSH client (openssh-client)",
				}
			}
			options, err := a.sshOptions()
			if err != nil {
				return err
			}
			var words []string
			for _, o := range options {
				words = append(words, "-o", o)
			}
			words = append(words, "-o", "SetEnv ALOFT_START=workspace", args[0])
			child := exec.CommandContext(cmd.Context(), program, append(words, args[1:]...)...)
			child.Stdin, child.Stdout, child.Stderr = a.Stdin, a.Stdout, a.Stderr
			child.Env = os.Environ()
			err = child.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() >= 0 {
				return &cli.Problem{Exit: exit.ExitCode(), Code: "ssh", Err: err} // ssh has printed the error
			}
			return err
		},
	}
}
