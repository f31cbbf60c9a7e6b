package main

import (
	"fmt"
	"net/url"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
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
			a.out.Note("The link works once, until %s. After that, use %s.", p.ExpiresAt.Local().Format(time.TimeOnly), cli.Line(p.URL, 0))
			if open {
				return openBrowser(p.SignInURL)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "open the preview in your browser")
	return cmd
}

// openBrowser opens a URL from the server in the user's browser. The programs
// below would also open files and start other programs, so it must be a page.
func openBrowser(address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the server's address %q is not that of a web page", cli.Line(address, 200))
	}
	for _, name := range []string{"xdg-open", "open"} {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, address).Start() // the browser outlives this process
		}
	}
	return &cli.Problem{Exit: cli.Failure, Code: "no_browser", Message: "no browser found on this computer", Hint: "open the address above in a browser"}
}
