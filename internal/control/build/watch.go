package build

import (
	"cmp"
	"context"
	"errors"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

// usedFor is how long an environment counts as in use after a machine has
// started from it. Unused environments are not rebuilt.
const usedFor = 7 * 24 * time.Hour

// watch periodically checks the environments in use until ctx ends, and
// rebuilds them if necessary.
func (b *Builder) watch(ctx context.Context) {
	every := b.WatchEvery
	if every == 0 || b.RebuildEvery > 0 && b.RebuildEvery < every {
		every = b.RebuildEvery
	}
	if every == 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		active, err := b.Builds.ActiveBuilds(ctx)
		if err != nil && ctx.Err() == nil {
			b.Logger.Error("cannot list builds", "error", err)
		}
		for _, r := range active {
			if err := b.look(ctx, r); err != nil && ctx.Err() == nil {
				b.Logger.Warn("cannot check an environment for changes", "environment", r.EnvironmentID, "error", err)
			}
		}
	}
}

// look rebuilds an environment if a commit on the branch has changed it, or if
// its build is too old.
func (b *Builder) look(ctx context.Context, r environment.Record) error {
	if len(r.Commits) == 0 || !isYoung(lastUse(r), usedFor) {
		return nil
	}
	p, ok, err := b.planOf(ctx, r)
	if err != nil || !ok {
		return err
	}
	p.unasked = true
	var why environment.Trigger
	switch {
	case b.WatchEvery > 0 && p.digest() != r.Digest:
		why = environment.ConfigChange
	case b.RebuildEvery > 0 && !isYoung(r.CheckedAt, b.RebuildEvery):
		why = environment.Recurring
	default:
		return nil
	}
	last, err := b.Builds.ListBuilds(ctx, r.EnvironmentID, store.Page{Limit: 1})
	if err != nil {
		return err
	}
	if len(last) == 1 && last[0].Status == environment.Failed && last[0].Digest == p.digest() && last[0].Inputs == p.Inputs &&
		isYoung(last[0].CreatedAt, cmp.Or(b.RebuildEvery, usedFor)) {
		return nil // retrying is useless until somebody fixes it
	}
	_, err = b.Ensure(ctx, p, why, func(string) {})
	return err
}

// planOf returns the plan for rebuilding the environment of the build r. ok is
// false if that environment is no longer used for the repositories.
func (b *Builder) planOf(ctx context.Context, r environment.Record) (p Plan, ok bool, err error) {
	was := Plan{repoURL: r.Commits[0].URL, userID: r.UserID}
	for _, c := range r.Commits[1:] {
		was.others = append(was.others, repository{url: c.URL})
	}
	var e environment.Saved
	if b.Saved != nil && environment.IsSavedID(r.EnvironmentID) {
		e, err = b.Saved.Environment(ctx, r.EnvironmentID)
		if errors.Is(err, store.ErrNotFound) {
			return Plan{}, false, nil
		}
		if err != nil {
			return Plan{}, false, err
		}
		was.userID = e.UserID
	}
	if p, err = b.atDefault(ctx, was); err != nil {
		return Plan{}, false, err
	}
	if p.environmentID() != r.EnvironmentID && p.file == "" && e.ID != "" && e.For(was.repoURL) {
		// The build is of the team's environment, but its author also has a
		// personal environment for the repository.
		if err := b.instead(ctx, &p, e); err != nil {
			return Plan{}, false, err
		}
	}
	nothing := p.Environment.Install == "" && p.dockerfile == "" || p.Environment.Build != nil && p.noImage != nil
	return p, p.environmentID() == r.EnvironmentID && p.Commit != "" && !nothing, nil
}
