package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

// desktopPort is where the desktop of a machine is.
const desktopPort = 5901

func newAgentDesktopCommand(a *app) *cobra.Command {
	var local uint16
	var open bool
	cmd := &cobra.Command{
		Use:   "desktop AGENT",
		Short: "See the desktop of an agent's machine",
		Long: `See the desktop of an agent's machine.

Listens on a port of 127.0.0.1, to which you lead a VNC viewer, until it is
interrupted. The dashboard shows the desktop without a viewer: --open leads
this machine's browser there, and ends.

The desktop is started where it does not run yet. A machine has one where its
image has a VNC server: "aloft image build --desktop" makes such an image. Whoever
has an account on this computer can reach the local port.`,
		Example: `  aloft agent desktop bc-…
  aloft agent desktop bc-… --port 5901
  aloft agent desktop bc-… --open`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			d, err := c.Desktop(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			page := c.URL() + "/agents/" + url.PathEscape(args[0]) + "/machine?desktop"
			switch {
			case a.out.JSON():
				return a.out.Value(d)
			case !d.Running:
				return &cli.Problem{Exit: cli.Failure, Code: "desktop_missing", Message: "the machine has no desktop: " + cli.Line(d.Reason, 200), Hint: cli.Line(d.Hint, 200)}
			case open:
				a.out.Line("%s", page)
				return openBrowser(page)
			}
			a.out.Note("Lead a VNC viewer to the address below, or a browser to %s", page)
			return a.forward(cmd.Context(), c, args[0], desktopPort, local)
		},
	}
	cmd.Flags().Uint16Var(&local, "port", 0, "listen on this port here; 0 takes a free one")
	cmd.Flags().BoolVar(&open, "open", false, "open the dashboard's view of it in this machine's browser")
	return cmd
}
