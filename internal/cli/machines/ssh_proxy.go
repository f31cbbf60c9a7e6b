package machines

import (
	"io"

	"github.com/spf13/cobra"
)

func newSSHProxyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh-proxy HOST",
		Short: "Connect ssh to an agent's machine (a ProxyCommand)",
		Long: `Connect standard input and output to the SSH server of an agent's machine. Use this as
ssh's ProxyCommand; 'aloft config-ssh' sets that up. HOST is the agent's id, or
aloft. and its id. A sleeping machine is woken.`,
		Example:           `  ssh -o ProxyCommand='aloft ssh-proxy %n' bc-…`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			conn, life, err := c.OpenSSH(cmd.Context(), agentOfHost(args[0]))
			if err != nil {
				return err
			}
			defer conn.Close()
			// Do this before ssh receives the first byte and looks up the host key.
			if err := a.forgetOldKey(args[0], life); err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(conn, a.Stdin)
				_ = conn.Close() // ssh has exited
			}()
			// Ignore the error: ssh reports how the connection ended.
			_, _ = io.Copy(a.Stdout, conn)
			return nil
		},
	}
}
