package main

import (
	"context"
	"os"
	"os/exec"

	"aloft/internal/panel"
)

// panel shows the control panel until the user quits.
func (a *app) panel(ctx context.Context, in, out *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return panel.Run(ctx, panel.Options{
		Connect: func() (panel.Client, error) {
			c, err := a.Connect()
			if err != nil {
				return nil, err // not a nil pointer in a non-nil interface
			}
			return c, nil
		},
		// Attach runs in a separate process, so that its keyboard reader ends with the
		// process.
		Attach: func(agentID string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, a.attachArgs(agentID)...)
			cmd.Stdin, cmd.Stdout = in, out
			return cmd
		},
		Problem: problemOf,
		Color:   !a.Config.NoColor,
	}, in, out)
}

// attachArgs returns the arguments of an attach command for agentID, with this
// program's own flags.
func (a *app) attachArgs(agentID string) []string {
	args := []string{"agent", "attach"}
	for flag, value := range map[string]string{"--url": a.Config.URL, "--api-key-file": a.Config.KeyFile} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	return append(args, "--", agentID)
}
