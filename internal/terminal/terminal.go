// Package terminal defines types for the terminals of a machine, which people and the
// agent share.
package terminal

import (
	"time"

	"aloft/internal/policy/sandbox"
)

// Terminal is a terminal of a machine, as the machine reports it. Its texts are
// untrusted.
type Terminal struct {
	Name          string
	Created       time.Time
	Active        time.Time // last output or input
	Attached      int       // number of viewers
	Columns, Rows int
	Command       string // foreground command
	Dir           string // working directory of the command
	PID           int    // pid of the foreground program, valid in the machine; 0 outside of it
	Dead          bool   // whether its command has exited
	ExitCode      *int   // exit code of a dead terminal; nil if unknown
}

// New describes a terminal to create. Every field is optional.
type New struct {
	Name          string
	Command       string // command line for the user's shell; by default a login shell
	Dir           string
	Env           map[string]string
	Columns, Rows int
	Sandbox       *sandbox.Policy // nil means no sandbox
}
