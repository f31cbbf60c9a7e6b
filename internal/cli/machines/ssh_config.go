package machines

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"aloft/internal/atomicfile"
	"aloft/internal/cli"
	"aloft/internal/cli/command"
	"aloft/internal/sshconfig"
)

func newConfigSSHCommand(a *app) *cobra.Command {
	var yes, remove bool
	cmd := &cobra.Command{
		Use:   "config-ssh",
		Short: "Configure ssh to reach agents' machines by name",
		Long: `Add a section to ~/.ssh/config for agents' machines, so that 'ssh bc-…', scp, rsync
and the remote development features of editors work with them. The rest of the file
is not changed. The command shows the change and asks before writing it.`,
		Example: `  aloft config-ssh
  ssh aloft.bc-…`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			stanza := ""
			if !remove {
				options, err := a.sshOptions()
				if err != nil {
					return err
				}
				stanza = sshconfig.Stanza(options)
			}
			return a.configureSSH(filepath.Join(a.Getenv("HOME"), ".ssh", "config"), stanza, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask for confirmation")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove Aloft's section")
	return cmd
}

func (a *app) configureSSH(file, stanza string, yes bool) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // write through a symbolic link
	}
	mode := fs.FileMode(0o600)
	data, err := os.ReadFile(file)
	switch {
	case err == nil:
		if info, err := os.Stat(file); err == nil {
			mode = info.Mode().Perm()
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	text, old, err := sshconfig.Set(string(data), stanza)
	if err != nil {
		return command.UsageError(fmt.Errorf("%s: %w", file, err))
	}
	if text == string(data) {
		return a.configured(file, false)
	}
	if !a.Out.JSON() {
		a.Out.Line("%s:", file)
		for line := range strings.Lines(old) {
			a.Out.Line("- %s", strings.TrimRight(line, "\r\n"))
		}
		for line := range strings.Lines(stanza) {
			a.Out.Line("+ %s", strings.TrimRight(line, "\n"))
		}
	}
	if !yes && !a.agreed("Write this change? [y/N] ") {
		return &cli.Problem{Exit: cli.Failure, Code: "not_confirmed", Message: "nothing was changed", Hint: "answer y, or use --yes"}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(file, []byte(text), mode); err != nil {
		return err
	}
	return a.configured(file, true)
}

func (a *app) configured(file string, changed bool) error {
	if a.Out.JSON() {
		return a.Out.Value(map[string]any{"file": file, "changed": changed})
	}
	if changed {
		a.Out.Line("Written.")
		return nil
	}
	a.Out.Line("%s is up to date.", file)
	return nil
}

// agreed asks question and reports whether the answer is y or yes.
func (a *app) agreed(question string) bool {
	if a.Stdin == nil {
		return false
	}
	fmt.Fprint(a.Stderr, question)
	answer, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && answer == "" {
		fmt.Fprintln(a.Stderr)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
