package main

import (
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

func newAgentPreviewCommand(a *app) *cobra.Command {
	var open bool
	cmd := &cobra.Command{
		Use:   "preview AGENT PORT",
		Short: "See in a browser what listens on a port in an agent's machine",
		Long: `See in a browser what listens on a port in an agent's machine.

Prints an address that signs one browser in, for as long as it says; give it to
nobody. The preview has an origin of its own, where neither the server's cookies
nor those of other previews are seen. PORT is a number, or a name that the
project's environment.json gives one; ` + "`aloft agent show`" + ` lists those.`,
		Example: `  aloft agent preview bc-… 3000
  aloft agent preview bc-… web --open`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connect()
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
			if a.out.JSON() {
				return a.out.Value(p)
			}
			a.out.Line("%s", cli.Line(p.SignInURL, 0))
			a.out.Note("The address is good once, until %s; afterwards it is %s.", p.ExpiresAt.Local().Format(time.TimeOnly), cli.Line(p.URL, 0))
			if open {
				return openBrowser(p.SignInURL)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open it in this machine's browser")
	return cmd
}

// openBrowser leads the person's browser to a URL of the server's.
func openBrowser(url string) error {
	for _, name := range []string{"xdg-open", "open"} {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, url).Start() // the browser goes on without us
		}
	}
	return &cli.Problem{Exit: cli.Failure, Code: "no_browser", Message: "no browser was found here", Hint: "open the address above in one"}
}
