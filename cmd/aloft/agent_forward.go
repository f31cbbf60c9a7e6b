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
interrupted. PORT is a number, or a name that the project's environment.json
gives one; ` + "`aloft agent show`" + ` lists those.`,
		Example: `  aloft agent forward bc-… 3000
  aloft agent forward bc-… 5432:15432
  aloft agent forward bc-… db:0`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
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

// forwardOf reads PORT[:LOCAL].
func forwardOf(ctx context.Context, c *client.Client, agentID, s string) (port, local uint16, err error) {
	remote, here, both := s, "", false
	if i := strings.LastIndexByte(s, ':'); i >= 0 { // a name may have one too
		remote, here, both = s[:i], s[i+1:], true
	}
	at, err := strconv.ParseUint(here, 10, 16)
	if both && err != nil {
		return 0, 0, usageError{fmt.Errorf("%q: a local port is a number from 0 to 65535", here)}
	}
	if port, err = portOf(ctx, c, agentID, remote); err != nil || both {
		return port, uint16(at), err
	}
	return port, port, nil
}

// portOf is a port in an agent's machine, by its number or by the name that the
// agent's environment gives it.
func portOf(ctx context.Context, c *client.Client, agentID, s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && n > 0 {
		return uint16(n), nil
	}
	if s == "" || strings.Trim(s, "-0123456789") == "" {
		return 0, usageError{fmt.Errorf("%q: a port is a number from 1 to 65535, or a name of environment.json", s)}
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
	hint := "the project's environment.json names none: give a number, or name it there under ports"
	if len(names) > 0 {
		hint = "give a number, or one of " + strings.Join(names, ", ")
	}
	return 0, &cli.Problem{Exit: cli.Usage, Code: "unknown_port", Message: fmt.Sprintf("no port of the agent is called %q", cli.Line(s, 80)), Hint: hint}
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
