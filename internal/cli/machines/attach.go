package machines

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli/command"
	"aloft/internal/client"
)

// reattachWithin is how long attach retries after losing its connection.
const reattachWithin = 30 * time.Second

func newAgentAttachCommand(a *app) *cobra.Command {
	var terminal string
	var readOnly bool
	cmd := &cobra.Command{
		Use:   "attach AGENT",
		Short: "Open a terminal that you share with an agent",
		Long: `Open a terminal that you share with an agent.

The terminal is a tmux session in the agent's machine. Everyone attached sees the
same screen, and the session keeps running after you detach with Ctrl-B D.`,
		Example: `  aloft agent attach bc-…
  aloft agent attach bc-… --terminal build --read-only`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, out, err := a.NeedTerminal()
			if err != nil {
				return err
			}
			c, err := a.Connect()
			if err != nil {
				return err
			}
			columns, rows := command.SizeOf(out)
			ask := client.PTYRequest{Type: "terminal", Terminal: terminal, ReadOnly: readOnly, Columns: columns, Rows: rows}
			_, err = a.InRawMode(cmd.Context(), in, out, func(ctx context.Context, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
				return attachAgain(ctx, agentPTY(c, args[0]), ask, out, keys, sizes)
			})
			return err
		},
	}
	cmd.Flags().StringVar(&terminal, "terminal", "main", "terminal name; created if it does not exist")
	cmd.Flags().BoolVar(&readOnly, "read-only", false, "watch without typing")
	return cmd
}

func agentPTY(c *client.Client, agentID string) command.OpenPTY {
	return func(ctx context.Context) (*client.PTY, error) { return c.OpenPTY(ctx, agentID) }
}

// attachAgain shows a terminal and reconnects when the connection is lost.
func attachAgain(ctx context.Context, open command.OpenPTY, ask client.PTYRequest, out *os.File, keys <-chan []byte, sizes <-chan os.Signal) (int, error) {
	for wait := 100 * time.Millisecond; ; {
		begun := time.Now()
		code, err := command.AttachOnce(ctx, open, ask, out, keys, sizes)
		if !errors.Is(err, command.ErrCut) {
			return code, err
		}
		if time.Since(begun) > reattachWithin {
			wait = 100 * time.Millisecond
		}
		if wait > reattachWithin/3 {
			return 0, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		wait *= 2
		ask.Columns, ask.Rows = command.SizeOf(out)
	}
}
