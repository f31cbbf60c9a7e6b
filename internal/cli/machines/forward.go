package machines

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
	"aloft/internal/cli/command"
	"aloft/internal/client"
)

func newAgentForwardCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forward AGENT PORT[:LOCAL]",
		Short: "Forward a local port to a port in an agent's machine",
		Long: `Forward a local port to a port in an agent's machine.

Listens on 127.0.0.1 and forwards each connection to PORT in the machine, until
interrupted. LOCAL is the local port (default: the same as PORT; 0 picks a free
one). PORT is a number, or a port name from the project's environment.json;
` + "`aloft agent show`" + ` lists the names.`,
		Example: `  aloft agent forward bc-… 3000
  aloft agent forward bc-… 5432:15432
  aloft agent forward bc-… db:0`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			port, local, err := forwardOf(cmd.Context(), c, args[0], args[1])
			if err != nil {
				return err
			}
			return a.forward(cmd.Context(), c, args[0], port, local)
		},
	}
}

// forwardOf parses PORT[:LOCAL].
func forwardOf(ctx context.Context, c *client.Client, agentID, s string) (port, local uint16, err error) {
	remote, here, both := s, "", false
	if i := strings.LastIndexByte(s, ':'); i >= 0 { // a port name may contain a colon
		remote, here, both = s[:i], s[i+1:], true
	}
	at, err := strconv.ParseUint(here, 10, 16)
	if both && err != nil {
		return 0, 0, command.UsageError(fmt.Errorf("invalid local port %q: must be a number from 0 to 65535", here))
	}
	if port, err = portOf(ctx, c, agentID, remote); err != nil || both {
		return port, uint16(at), err
	}
	return port, port, nil
}

// portOf returns the port in an agent's machine that s names, by number or by a
// name from the agent's environment.
func portOf(ctx context.Context, c *client.Client, agentID, s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && n > 0 {
		return uint16(n), nil
	}
	if s == "" || strings.Trim(s, "-0123456789") == "" {
		return 0, command.UsageError(fmt.Errorf("invalid port %q: must be a number from 1 to 65535, or a name from environment.json", s))
	}
	agent, err := c.Agent(ctx, agentID)
	if err != nil {
		return 0, err
	}
	var names []string
	for _, p := range agent.Ports {
		if p.Name == s {
			return p.Port, nil
		}
		if p.Name != "" {
			names = append(names, cli.Line(p.Name, 40))
		}
	}
	hint := "environment.json names no ports: give a number, or add the name under ports"
	if len(names) > 0 {
		hint = "give a number, or one of " + strings.Join(names, ", ")
	}
	return 0, &cli.Problem{Exit: cli.Usage, Code: "unknown_port", Message: fmt.Sprintf("the agent has no port named %q", cli.Line(s, 80)), Hint: hint}
}

// forward listens until ctx is done, and then returns nil.
func (a *app) forward(ctx context.Context, c *client.Client, agentID string, port, local uint16) error {
	if _, err := c.Agent(ctx, agentID); err != nil { // check before listening that the agent exists
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local))))
	if err != nil {
		return &cli.Problem{
			Exit: cli.Failure, Code: "port_taken", Message: fmt.Sprintf("cannot listen on port %d: %v", local, err),
			Hint: fmt.Sprintf("choose another local port with %d:LOCAL", port),
		}
	}
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	a.Out.Line("%s forwards to port %d in the machine of %s. Press Ctrl-C to stop.", l.Addr(), port, cli.Line(agentID, 80))
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
					a.Out.Note("%v", err)
				}
				return
			}
			t.Join(ctx, conn)
		})
	}
}
