package build

import (
	"context"
	"errors"
	"time"

	"aloft/internal/control/store"
	"aloft/internal/environment"
)

// How long to wait before the last update of a build is tried again, and how
// often builds are looked for that nobody makes any more.
const (
	closeWait    = time.Second
	closeLongest = time.Minute
	endEvery     = time.Minute
)

// close writes how a build has ended. It tries again, until the server stops,
// where the store cannot be reached or has lost the answer: the update may be
// repeated.
func (b *Builder) close(r environment.Record, activate bool) error {
	b.mu.Lock()
	server := b.ctx
	b.mu.Unlock()
	for wait := closeWait; ; wait = min(2*wait, closeLongest) {
		err := b.Builds.UpdateBuild(context.WithoutCancel(server), r, activate)
		if !errors.Is(err, store.ErrUnreachable) && !errors.Is(err, store.ErrUnknown) {
			return err
		}
		b.Logger.Warn("the end of a build is not written yet", "build", r.ID, "error", err)
		select {
		case <-time.After(wait):
		case <-server.Done():
			return err
		}
	}
}

// endAlways ends unfinished builds now and then until ctx ends: a server may
// have died, or lost the store, with a build in progress.
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
			b.Logger.Error("builds that were left unfinished cannot be ended", "error", err)
		}
	}
}

// endUnfinished ends the builds in progress that neither this server makes nor
// another, which would hold the lease.
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
	if b.flies(r.EnvironmentID) {
		return nil // perhaps this very build
	}
	name := "build/" + r.EnvironmentID
	if ok, err := b.Leases.Acquire(ctx, name, b.Owner, leaseTTL); err != nil || !ok {
		return err
	}
	defer func() {
		if !b.flies(r.EnvironmentID) { // or else the lease is that build's by now
			_ = b.Leases.Release(context.WithoutCancel(ctx), name, b.Owner) // it lapses
		}
	}()
	r, err := b.Builds.Build(ctx, r.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && r.Status != environment.InProgress {
		return nil // it has ended since
	}
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	r.Status, r.FailureType, r.Message, r.EndedAt = environment.Failed, environment.TerminalFailure, "the server ended while it was made", &now
	return errors.Join(b.destroy(ctx, r.MachineID), b.drop(r.ID), b.Builds.UpdateBuild(ctx, r, false))
}

// flies reports whether this server makes a build of the environment.
func (b *Builder) flies(environmentID string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flights[environmentID] != nil
}
