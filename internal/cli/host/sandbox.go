package host

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/front"
)

// newSandboxCommand returns the command that runs the machines' sandbox without
// a server. Package front parses its flags, because only front knows where the
// flags of the sandboxed command begin.
func newSandboxCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:                "sandbox [run | explain | probe] [FLAG]... [-- COMMAND [ARGUMENT]...]",
		Short:              "Run one command in a sandbox, without a server",
		DisableFlagParsing: true,
		Args:               cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			code, err := front.Main(args, front.Process{
				Name: "aloft sandbox", Keeper: []string{"/proc/self/exe", "sandbox", front.KeepWord},
				Environ: os.Environ(), Getenv: a.Getenv, Stdout: a.Stdout, Stderr: a.Stderr,
			})
			if err == nil {
				if code != 0 {
					os.Exit(code) // the command has printed its own error
				}
				return nil
			}
			p := &cli.Problem{Exit: code, Code: "sandbox", Message: err.Error(), Err: err}
			if _, ok := errors.AsType[*sandbox.UnenforceableError](err); ok {
				p.Hint = strings.Join(append(sandbox.Hints(), "--best-effort runs the command with the rules that this host can enforce"), "; ")
			}
			return p
		},
	}
}
