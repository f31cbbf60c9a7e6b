package host

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"aloft/internal/cli"
	"aloft/internal/control/machine/container"
	"aloft/internal/server"
	"aloft/internal/server/probe"
)

func newDoctorCommand(a *app) *cobra.Command {
	file := a.Getenv("ALOFT_CONFIG")
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this host can run a server",
		Long: `Check whether this host can run a server, and print how to fix what is missing. The
exit code is 1 if something is missing that every agent needs.

With a configuration, doctor also checks with each forge in git.credentials that its
token is valid and may push and open pull requests, and makes one search if
web_search is set. If store or ALOFT_STORE is set,
doctor connects to that database.`,
		Example: `  aloft doctor
  aloft doctor --config aloft.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			config, err := server.LoadConfig(file, a.Getenv)
			if err != nil {
				return err
			}
			dir, err := os.MkdirTemp("", "aloft-doctor-")
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			bin, err := container.Install(a.Embedded, filepath.Join(dir, "bin"))
			if err != nil {
				bin = container.Installed{} // the runtime's own check reports this
			}
			checks := container.Probe(cmd.Context(), container.Config{Dir: existing(a.Config.Data), RuntimePath: bin.Runc})
			checks = append(checks, probe.ProjectQuotas(existing(a.Config.Data)), probe.Sandbox())
			checks = append(checks, probe.Image(cmd.Context(), config.Machine.Image)...)
			checks = append(checks, server.CheckBuilder(config.Images))
			checks = append(checks, server.ProbeStore(cmd.Context(), cmp.Or(a.Getenv("ALOFT_STORE"), config.Store))...)
			git, err := probe.Git()
			if err != nil {
				return err
			}
			unpacking, err := probe.Unpack()
			if err != nil {
				return err
			}
			checks = append(checks, probe.User(), git, unpacking)
			forges, err := server.ProbeForges(cmd.Context(), config.Git)
			if err != nil {
				return err
			}
			checks = append(checks, forges...)
			checks = append(checks, server.ProbeWebSearch(cmd.Context(), config)...)
			checks = append(checks, server.ProbeEmbeddings(cmd.Context(), config)...)
			if a.Out.JSON() {
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
				err = &cli.Problem{Exit: cli.Failure, Code: "not_ready", Message: fmt.Sprintf("%d things that agents need are missing on this host", missing)}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", file, "configuration `file` of the server (ALOFT_CONFIG)")
	return cmd
}

// existing returns dir if it exists, or else its nearest existing parent, which
// is on the file system that dir will use.
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
	return a.Out.Value(map[string]any{"checks": list})
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
			style, word = cli.Yellow, "missing"
		}
		a.Out.Line("%s  %-*s  %s", a.Out.Style(style, fmt.Sprintf("%-7s", word)), width, c.Name, cli.Line(c.Detail, 200))
		if c.Fix != "" && !c.OK {
			a.Out.Line("%-7s  %-*s  %s %s", "", width, "", a.Out.Style(cli.Cyan, "fix:"), cli.Line(c.Fix, 300))
		}
	}
}
