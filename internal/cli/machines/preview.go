package machines

import (
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/cli/command"
)

func newAgentPreviewCommand(a *app) *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "preview AGENT PORT",
		Short: "Open a port of an agent's machine in a browser",
		Long: `Open a port of an agent's machine in a browser.

Prints a one-time link that signs a browser in to the preview. Do not share it. The
preview has its own origin, so it cannot see the cookies of the server or of other
previews. PORT is a number, or a port name from the project's environment.json;
` + "`aloft agent show`" + ` lists the names.`,
		Example: `  aloft agent preview bc-… 3000
  aloft agent preview bc-… web --open`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.CompleteAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.Connect()
			if err != nil {
				return err
			}
			port, err := portOf(cmd.Context(), c, args[0], args[1])
			if err != nil {
				return err
			}
			p, err := c.Preview(cmd.Context(), args[0], port)
			if err != nil {
				return err
			}
			if a.Out.JSON() {
				return a.Out.Value(p)
			}
			a.Out.Line("%s", cli.Line(p.SignInURL, 0))
			a.Out.Note("The link works once, until %s. After that, use %s.", p.ExpiresAt.Local().Format(time.TimeOnly), cli.Line(p.URL, 0))
			if open {
				return command.OpenBrowser(p.SignInURL)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the preview in your browser")
	return cmd
}
