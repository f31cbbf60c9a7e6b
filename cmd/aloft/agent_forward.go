package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/client"
)

func newAgentForwardCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forward AGENT PORT[:LOCAL]",
		Short: "Reach a port in an agent's machine from here",
		Long: `Reach a port in an agent's machine from here.

Listens on 127.0.0.1, on the same port unless LOCAL says otherwise (0 takes a
free one), and carries each connection to the port in the machine, until it is
interrupted.`,
		Example: `  aloft agent forward bc-… 3000
  aloft agent forward bc-… 5432:15432`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			port, local, err := parseForward(args[1])
			if err != nil {
				return usageError{err}
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			return a.forward(cmd.Context(), c, args[0], port, local)
		},
	}
}

// parseForward reads PORT[:LOCAL].
func parseForward(s string) (port, local uint16, err error) {
	remote, here, both := strings.Cut(s, ":")
	p, err := strconv.ParseUint(remote, 10, 16)
	if err != nil || p == 0 {
		return 0, 0, fmt.Errorf("%q: a port is a number from 1 to 65535", remote)
	}
	if !both {
		return uint16(p), uint16(p), nil
	}
	l, err := strconv.ParseUint(here, 10, 16)
	if err != nil {
		return 0, 0, fmt.Errorf("%q: a local port is a number from 0 to 65535", here)
	}
	return uint16(p), uint16(l), nil
}

// forward listens until ctx ends, which is no error.
func (a *app) forward(ctx context.Context, c *client.Client, agentID string, port, local uint16) error {
	if _, err := c.Agent(ctx, agentID); err != nil { // before anybody connects to nothing
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local))))
	if err != nil {
		return &cli.Problem{
			Exit: cli.Failure, Code: "port_taken", Message: fmt.Sprintf("cannot listen on port %d: %v", local, err),
			Hint: fmt.Sprintf("name another with %d:LOCAL", port),
		}
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	a.out.Line("%s goes to port %d in the machine of %s. Interrupt to end.", l.Addr(), port, cli.Line(agentID, 80))
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		open.Go(func() {
			t, err := c.DialPort(ctx, agentID, port)
			if err != nil {
				_ = conn.Close()
				if ctx.Err() == nil {
					a.out.Note("%v", err)
				}
				return
			}
			t.Join(ctx, conn)
		})
	}
}
