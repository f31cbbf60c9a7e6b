// Command sandbox runs a command with restricted access: see
// internal/guest/sandbox.
package main

import (
	"errors"
	"fmt"
	"os"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/front"
)

func main() {
	self := []string{"/proc/self/exe", front.KeepWord}
	code, err := front.Main(os.Args[1:], front.Process{
		Name: "sandbox", Keeper: self, Environ: os.Environ(), Getenv: os.Getenv, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		if _, ok := errors.AsType[*sandbox.UnenforceableError](err); ok {
			for _, hint := range sandbox.Hints() {
				fmt.Fprintln(os.Stderr, "sandbox: to fix this:", hint)
			}
			fmt.Fprintln(os.Stderr, "sandbox: nothing was run; use --best-effort to run the command with the rules that this host can enforce")
		}
	}
	os.Exit(code)
}
