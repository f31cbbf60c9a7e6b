package build

import (
	"context"

	"aloft/internal/environment"
	"aloft/internal/fault"
)

// Request is an explicit request for a build.
type Request struct {
	Saved   *environment.Saved // nil means the environment in the repository
	RepoURL string
	UserID  int64
	Again   bool // build even if nothing has changed
}

// Demand makes a build, even if the same build has just failed, and returns the
// build after its end. tell receives progress messages. The build continues if
// ctx ends.
func (b *Builder) Demand(ctx context.Context, w Request, tell func(string)) (environment.Record, error) {
	if b.Layers == nil {
		return environment.Record{}, fault.NotImplemented("this server cannot save machines, so it cannot build environments in advance")
	}
	p, err := b.plan(ctx, source{repoURL: w.RepoURL, userID: w.UserID})
	if err != nil {
		return environment.Record{}, err
	}
	p.again = w.Again
	if e := w.Saved; e != nil {
		if err := b.instead(ctx, &p, *e); err != nil {
			return environment.Record{}, err
		}
	}
	switch {
	case p.Commit == "":
		return environment.Record{}, fault.Conflict("the repository has no commit to build at").Named("repository_empty").Hint("push a first commit")
	case p.Environment.Build != nil && p.noImage != nil:
		return environment.Record{}, p.noImage
	case p.Environment.Install == "" && p.dockerfile == "":
		return environment.Record{}, fault.Conflict("the environment has neither install nor build: there is nothing to build").Named("nothing_to_build")
	}
	return b.Ensure(ctx, p, environment.Manual, tell)
}

// instead replaces the plan's environment with a saved one.
func (b *Builder) instead(ctx context.Context, p *Plan, e environment.Saved) error {
	p.userID = e.UserID
	p.Environment, p.Findings = environment.Parse("environment.json", []byte(e.Text))
	p.Where, p.savedID, p.file, p.scriptID = "the saved environment "+e.ID, e.ID, "", ""
	return b.readInputs(ctx, p)
}
