package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/control/machine/container"
)

func newDoctorCommand(a *app) *cobra.Command {
	file := a.getenv("ALOFT_CONFIG")
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this host can run, and what it lacks",
		Long: `Say what this host can run as a server, what it lacks, and the command that mends
it. It exits with 1 if something is missing without which no agent runs.

With a configuration it asks the forges of git.credentials, too, whether they take
the tokens, and whether those suffice to push and to open pull requests. Where
store or ALOFT_STORE names a database, it tries that.`,
		Example: `  aloft doctor
  aloft doctor --config aloft.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			config, err := loadConfig(file, a.getenv)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "aloft-doctor-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			bin, err := container.Install(binaries(), filepath.Join(dir, "bin"))
			if err != nil {
				bin = container.Installed{} // the runtime's own check says what that means
			}
			checks := container.Probe(cmd.Context(), container.Config{Dir: existing(a.config.Data), RuntimePath: bin.Runc})
			checks = append(checks, probeSandbox())
			checks = append(checks, builderCheck(config.Images))
			checks = append(checks, probeStore(cmd.Context(), cmp.Or(a.getenv("ALOFT_STORE"), config.Store))...)
			forges, err := probeForges(cmd.Context(), config.Git)
			if err != nil {
				return err
			}
			checks = append(checks, forges...)
			if a.out.JSON() {
				err = a.printChecks(checks)
			} else {
				a.showChecks(checks)
			}
			missing := 0
			for _, c := range checks {
				if c.Required && !c.OK {
					missing++
				}
			}
			if err == nil && missing > 0 {
				err = &cli.Problem{Exit: cli.Failure, Code: "not_ready", Message: fmt.Sprintf("this host lacks %d of what agents need", missing)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", file, "configuration `file` of the server (ALOFT_CONFIG)")
	return cmd
}

// existing is the folder, or the nearest above it that is there: what it can do,
// the folder will.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func (a *app) printChecks(checks []container.Check) error {
	type check struct {
		Name     string `json:"name"`
		OK       bool   `json:"ok"`
		Required bool   `json:"required"`
		Detail   string `json:"detail,omitempty"`
		Fix      string `json:"fix,omitempty"`
	}
	list := []check{}
	for _, c := range checks {
		list = append(list, check(c))
	}
	return a.out.Value(map[string]any{"checks": list})
}

func (a *app) showChecks(checks []container.Check) {
	width := 0
	for _, c := range checks {
		width = max(width, len(c.Name))
	}
	for _, c := range checks {
		style, word := cli.Green, "ok"
		switch {
		case !c.OK && c.Required:
			style, word = cli.Red, "MISSING"
		case !c.OK:
			style, word = cli.Yellow, "without"
		}
		a.out.Line("%s  %-*s  %s", a.out.Style(style, fmt.Sprintf("%-7s", word)), width, c.Name, cli.Line(c.Detail, 200))
		if c.Fix != "" && !c.OK {
			a.out.Line("%-7s  %-*s  %s %s", "", width, "", a.out.Style(cli.Cyan, "mend:"), cli.Line(c.Fix, 300))
		}
	}
}
