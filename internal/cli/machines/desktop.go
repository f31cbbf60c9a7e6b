package machines

import (
	"net/url"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
)

// desktopPort is the port of a machine's VNC server.
const desktopPort = 5901

func newAgentDesktopCommand(a *app) *cobra.Command {
	var local uint16
	var open bool
	cmd := &cobra.Command{
		Use:   "desktop AGENT",
		Short: "Open the desktop of an agent's machine",
		Long: `Open the desktop of an agent's machine.

Forwards a port on 127.0.0.1 to the machine's VNC server until interrupted; connect
a VNC viewer to it. The dashboard shows the desktop without a viewer: --open opens
it in your browser and exits.

The desktop is started if it is not running. It needs an image with a VNC server,
such as one made with "aloft image build --desktop". Every user of this computer
can connect to the local port.`,
		Example: `  aloft agent desktop bc-…
  aloft agent desktop bc-… --port 5901
  aloft agent desktop bc-… --open`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			d, err := c.Desktop(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			page := c.URL() + "/agents/" + url.PathEscape(args[0]) + "/machine?desktop"
			switch {
			case a.Out.JSON():
				return a.Out.Value(d)
			case !d.Running:
				return &cli.Problem{Exit: cli.Failure, Code: "desktop_missing", Message: "the machine has no desktop: " + cli.Line(d.Reason, 200), Hint: cli.Line(d.Hint, 200)}
			case open:
				a.Out.Line("%s", page)
				return command.OpenBrowser(page)
			}
			a.Out.Note("Connect a VNC viewer to the address below, or open %s in a browser", page)
			return a.forward(cmd.Context(), c, args[0], desktopPort, local)
		},
	}
	cmd.Flags().Uint16Var(&local, "port", 0, "local port; 0 picks a free one")
	cmd.Flags().BoolVar(&open, "open", false, "open the dashboard's view of the desktop in your browser")
	return cmd
}
