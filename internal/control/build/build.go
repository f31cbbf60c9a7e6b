// Package build makes environments ready: it finds out what the machine of an
// agent is to be made of, makes that once, and says what a machine starts from.
//
// What a repository says of its environment is read from the mirror, at the
// commit that the agent works on, before there is a machine; it is data of
// whoever wrote the repository, and does nothing but in the machine.
package build

import (
	"context"
	"log/slog"

	"aloft/internal/environment"
)

// Config is what a Builder works with.
type Config struct {
	Files  Files
	Image  string // the default base
	Logger *slog.Logger
}

// Builder makes environments ready. Its methods are safe for concurrent use.
type Builder struct {
	Config
}

// New makes a Builder.
func New(c Config) *Builder { return &Builder{Config: c} }

// Base is what a machine starts from.
type Base struct {
	Image   string
	Layer   string   // above the image; "" is none
	Install bool     // install has still to run in the machine
	Notes   []string // what people and the agent ought to know
}

// Prepare says what a machine of the plan starts from, and makes it ready where
// that takes no more than waiting. tell hears how far it is.
func (b *Builder) Prepare(_ context.Context, p Plan, _ func(string)) (Base, error) {
	base := Base{Image: b.Image, Install: p.Environment.Install != ""}
	switch p.Environment.Base() {
	case environment.BaseSnapshot:
		base.Notes = append(base.Notes, "The snapshot "+p.Environment.Snapshot+" is not there. The machine starts from the next base instead.")
	case environment.BaseImage, environment.BaseDockerfile, environment.BaseDefault:
	}
	return base, nil
}
