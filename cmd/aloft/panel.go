package main

import (
	"context"
	"os"
	"os/exec"

	"aloft/internal/panel"
)

// panel shows the control panel until the person leaves.
func (a *app) panel(ctx context.Context, in, out *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return panel.Run(ctx, panel.Options{
		Connect: func() (panel.Client, error) {
			c, err := a.connect()
			if err != nil {
				return nil, err // and no nil of a type
			}
			return c, nil
		},
		// A process of its own: what reads the keys there ends with it.
		Attach: func(agentID string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, a.attachArgs(agentID)...)
			cmd.Stdin, cmd.Stdout = in, out
			return cmd
		},
		Problem: problemOf,
		Color:   !a.config.NoColor,
	}, in, out)
}

// attachArgs are the arguments that open a terminal with the flags that this
// program was given.
func (a *app) attachArgs(agentID string) []string {
	args := []string{"agent", "attach"}
	for flag, value := range map[string]string{"--url": a.config.URL, "--api-key-file": a.config.KeyFile} {
		if value != "" {
			args = append(args, flag+"="+value)
		}
	}
	return append(args, "--", agentID)
}
