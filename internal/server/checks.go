package server

import (
	"errors"
	"fmt"
	"time"

	"aloft/internal/control/loop/proof"
)

// checksConfig configures the checks of runs.
type checksConfig struct {
	Rounds  *int   `yaml:"rounds"`  // how often failed checks send the agent back to work in a run; default 3
	Timeout string `yaml:"timeout"` // timeout of each check; default and maximum 10m
}

func (c checksConfig) check() error {
	if c.Rounds != nil && *c.Rounds < 0 {
		return errors.New("checks.rounds: must not be negative (0 never sends the agent back to work)")
	}
	d, err := time.ParseDuration(c.Timeout)
	if c.Timeout != "" && (err != nil || d < time.Second || d > proof.MaxCheckTimeout) {
		return fmt.Errorf("checks.timeout: invalid duration %q: must be 1s to %v", c.Timeout, proof.MaxCheckTimeout)
	}
	return nil
}

// checks returns the settings. check has already validated them.
func (c checksConfig) checks() proof.Checks {
	out := proof.Checks{Timeout: duration(c.Timeout)}
	if c.Rounds != nil {
		out.Rounds = *c.Rounds
		if out.Rounds == 0 {
			out.Rounds = -1 // never send the agent back
		}
	}
	return out
}
