// Package command holds the code that the packages of commands share:
// configuration, the connection to the server, lists, watching a run, and
// terminals.
package command

import (
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

// UsageError returns err as an error in flags or arguments.
func UsageError(err error) error {
	return &cli.Problem{Exit: cli.Usage, Code: "usage", Message: err.Error(), Err: err}
}

// App is the state that the commands share.
type App struct {
	Config Config
	Getenv func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Out    *cli.Output
	Output bool // the flag --output

	Version  string // version of this program
	Embedded fs.FS  // the files that make build adds, such as the machine binaries
}

// ConfigureOutput creates the output that the configuration selects.
func (a *App) ConfigureOutput() {
	a.Out = cli.New(a.Stdout, a.Stderr, cli.Options{JSON: a.Config.JSON, NoColor: a.Config.NoColor, Dumb: a.Config.Dumb})
}

// ReportDone reports an action on an agent, or on another object with an ID.
func (a *App) ReportDone(what, agentID string) error {
	if a.Out.JSON() {
		return a.Out.Value(map[string]string{"id": agentID})
	}
	a.Out.Line("%s %s.", what, cli.Line(agentID, 80))
	return nil
}

// Misuse returns a usage error of cmd, with its usage line as the hint.
func Misuse(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("usage: %s; see `%s --help`", cmd.UseLine(), cmd.CommandPath())
	return &cli.Problem{Exit: cli.Usage, Code: "usage", Message: err.Error(), Hint: hint, Err: err}
}
