package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newSSHProxyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "ssh-proxy AGENT",
		Short: "Connect ssh to an agent's machine (a ProxyCommand)",
		Long: `Join standard input and output to the ssh server of an agent's machine. This is
for ssh, as its ProxyCommand; 'aloft config-ssh' writes that into its
configuration. A machine that sleeps is woken.`,
		Example:           `  ssh -o ProxyCommand='aloft ssh-proxy %n' bc-…`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			conn, life, err := c.OpenSSH(cmd.Context(), agentOfHost(args[0]))
			if err != nil {
				return err
			}
			defer conn.Close()
			// Before ssh sees the first byte, and so before it looks for the key.
			if err := a.meet(args[0], life); err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(conn, a.stdin)
				_ = conn.Close() // ssh has gone
			}()
			// However it ended, ssh knows better what that means.
			_, _ = io.Copy(a.stdout, conn)
			return nil
		},
	}
}
