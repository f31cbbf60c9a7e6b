package build

import (
	"context"
	"errors"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

// The delay before retrying to record the end of a build, and the interval of
// looking for builds whose server is gone.
const (
	closeWait    = time.Second
	closeLongest = time.Minute
	endEvery     = time.Minute
)

// close records how a build has ended. If the store is unreachable or its
// answer is lost, it retries until the server stops. The update is idempotent.
func (b *Builder) close(r environment.Record, activate bool) error {
	b.mu.Lock()
	server := b.ctx
	b.mu.Unlock()
	for wait := closeWait; ; wait = min(2*wait, closeLongest) {
		err := b.Builds.UpdateBuild(context.WithoutCancel(server), r, activate)
		if !errors.Is(err, store.ErrUnreachable) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		b.Logger.Warn("cannot record the end of a build yet; retrying", "build", r.ID, "error", err)
		select {
		case <-time.After(wait):
		case <-server.Done():
			return err
		}
	}
}

// endAlways periodically calls endUnfinished until ctx ends, to end builds
// whose server has died or could not reach the store.
func (b *Builder) endAlways(ctx context.Context) {
	tick := time.NewTicker(endEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := b.endUnfinished(ctx); err != nil && ctx.Err() == nil {
			b.Logger.Error("cannot end unfinished builds", "error", err)
		}
	}
}

// endUnfinished ends recorded builds that no server works on. If another server
// works on a build, it holds the build's lease.
func (b *Builder) endUnfinished(ctx context.Context) error {
	open, err := b.Builds.OpenBuilds(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range open {
		errs = append(errs, b.endOne(ctx, r))
	}
	return errors.Join(errs...)
}

func (b *Builder) endOne(ctx context.Context, r environment.Record) error {
	if b.isBuilding(r.EnvironmentID) {
		return nil // another server holds the lease, perhaps for this build
	}
	name := "build/" + r.EnvironmentID
	if ok, err := b.Leases.Acquire(ctx, name, b.Owner, leaseTTL); err != nil || !ok {
		return err
	}
	defer func() {
		if !b.isBuilding(r.EnvironmentID) { // otherwise a build of this server uses the lease
			_ = b.Leases.Release(context.WithoutCancel(ctx), name, b.Owner) // if this fails, the lease expires
		}
	}()
	r, err := b.Builds.Build(ctx, r.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Status != environment.InProgress {
		return nil // the build has ended meanwhile
	}
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	r.Status, r.FailureType, r.Message, r.EndedAt = environment.Failed, environment.TerminalFailure, "the server stopped during the build", &now
	return errors.Join(b.destroy(ctx, r.MachineID), b.drop(r.ID), b.Builds.UpdateBuild(ctx, r, false))
}

// isBuilding reports whether this server is making a build of the environment.
func (b *Builder) isBuilding(environmentID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flights[environmentID] != nil
}
