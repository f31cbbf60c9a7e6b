package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"aloft/internal/cli"
	"aloft/internal/secret"
)

// ReadSecret returns the value of the named secret from file, a pipe or the
// terminal.
func (a *App) ReadSecret(name, file string) (string, error) {
	var data []byte
	var err error
	stdin, isFile := a.Stdin.(*os.File)
	switch {
	case file != "":
		var f *os.File
		if f, err = os.Open(file); err == nil {
			data, err = io.ReadAll(io.LimitReader(f, secret.MaxValue+2))
			_ = f.Close() // opened only for reading
		}
	case isFile && cli.IsTerminal(stdin):
		fmt.Fprintf(a.Stderr, "Value of %s (not shown): ", name)
		data, err = term.ReadPassword(int(stdin.Fd()))
		fmt.Fprintln(a.Stderr)
	default:
		data, err = io.ReadAll(io.LimitReader(a.Stdin, secret.MaxValue+2))
	}
	if err != nil {
		return "", UsageError(fmt.Errorf("read the value: %w", err))
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if value == "" {
		return "", UsageError(errors.New("missing value: type it, or give it on standard input or with --file"))
	}
	return value, nil
}
