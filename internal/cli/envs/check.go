package envs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/environment"
)

// Exit codes of `aloft env check`, with the meaning that linters give them.
const (
	checkWarnings = 1
	checkErrors   = 2
)

func newEnvCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [DIR]",
		Short: "Explain and check an environment.json",
		Long: `Explain the environment.json of a folder, and report mistakes by file, line and key,
with a suggested fix. The file is .aloft/environment.json or, if that does not exist,
.cursor/environment.json. Nothing is sent to a server.

The exit code is 0 if there are no findings, 1 if there are only warnings, and 2 if
there are errors.`,
		Example: `  aloft env check
  aloft env check ~/src/app --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) > 0 {
				dir = args[0]
			}
			name, data, err := readEnvironment(dir)
			if err != nil {
				return &cli.Problem{Exit: checkErrors, Code: "unreadable", Message: err.Error(), Err: err}
			}
			var e environment.Environment
			findings := environment.Findings{}
			if name != "" {
				e, findings = environment.Parse(name, data)
			}
			if a.Out.JSON() {
				err = a.Out.Value(struct {
					File        string                  `json:"file,omitempty"`
					Findings    environment.Findings    `json:"findings"`
					Environment environment.Environment `json:"environment"`
					Explain     []environment.Line      `json:"explain"`
				}{name, append(environment.Findings{}, findings...), e, e.Explain()})
			} else {
				a.showEnvironment(dir, name, e, findings)
			}
			switch findings.Worst() {
			case environment.Error:
				return errors.Join(err, &cli.Problem{Exit: checkErrors, Code: "errors"})
			case environment.Warning:
				return errors.Join(err, &cli.Problem{Exit: checkWarnings, Code: "warnings"})
			}
			return err
		},
	}
}

// readEnvironment reads the environment.json of dir. name is "" if there is none.
func readEnvironment(dir string) (name string, data []byte, err error) {
	if info, err := os.Stat(dir); err != nil {
		return "", nil, err
	} else if !info.IsDir() {
		return "", nil, fmt.Errorf("%s is not a folder", dir)
	}
	for _, name := range environment.Files {
		at := filepath.Join(dir, name)
		for _, part := range []string{filepath.Dir(at), at} {
			if info, err := os.Lstat(part); err == nil && info.Mode().Type() == fs.ModeSymlink {
				return "", nil, fmt.Errorf("%s is a symbolic link; links in a repository are not followed: commit the file itself", part)
			}
		}
		if info, err := os.Stat(at); err == nil && !info.Mode().IsRegular() {
			return "", nil, fmt.Errorf("%s is not a regular file", at)
		}
		f, err := os.Open(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		data, err := io.ReadAll(io.LimitReader(f, environment.MaxSize+1))
		return name, data, errors.Join(err, f.Close())
	}
	return "", nil, nil
}

func (a *app) showEnvironment(dir, name string, e environment.Environment, findings environment.Findings) {
	for _, f := range findings {
		f.File = filepath.Join(dir, f.File)
		a.Out.Line("%s", cli.Clean(f.String()))
	}
	if len(findings) > 0 {
		a.Out.Line("")
	}
	if name == "" {
		a.Out.Line("Neither %s nor %s exists.", environment.Files[0], environment.Files[1])
	}
	lines := e.Explain()
	width := 0
	for _, l := range lines {
		width = max(width, len(l.What))
	}
	for _, l := range lines {
		a.Out.Line("%s  %s", a.Out.Style(cli.Dim, fmt.Sprintf("%-*s", width, l.What)), cli.Line(l.Says, 120))
	}
}
