package command

import (
	"fmt"
	"net/url"
	"os/exec"

	"aloft/internal/cli"
)

// OpenBrowser opens a URL from the server in the user's browser. The URL must
// be a web page, because the programs below would also open files and start
// other programs.
func OpenBrowser(address string) error {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("the server's address %q does not begin with http:// or https://", cli.Line(address, 200))
	}
	for _, name := range []string{"xdg-open", "open"} {
		if path, err := exec.LookPath(name); err == nil {
			return exec.Command(path, address).Start() // the browser outlives this process
		}
	}
	return &cli.Problem{Exit: cli.Failure, Code: "no_browser", Message: "no browser found on this computer", Hint: "open the address above in a browser"}
}
