package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/layer"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// tidyEvery is the interval of clean-ups. A layer is kept for at least keptFor,
// because a machine may be about to start from it. At most maxKept builds of an
// environment are recorded.
const (
	tidyEvery = time.Hour
	keptFor   = 10 * time.Minute
	maxKept   = 100
	buildPage = 500
)

// tidy removes builds above the limits of age and number, with their disks,
// failed machines and logs. It removes everything of deleted environments. It
// keeps a disk while a machine or a snapshot uses it.
func (b *Builder) tidy(ctx context.Context) error {
	layers, err := b.Layers.List() // list the layers before the builds, so that layers of newer builds are not removed
	if err != nil {
		return err
	}
	all, err := b.allBuilds(ctx, "")
	if err != nil {
		return err
	}
	active, err := b.Builds.ActiveBuilds(ctx)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, l := range layers {
		has[l.ID] = true
	}
	builds, disks := map[string]int{}, map[string]int{}
	for _, a := range active {
		disks[diskOf(a)] = 1
	}
	deleted, known := map[string]bool{}, map[string]bool{}
	var errs []error
	for _, r := range all { // newest first
		known[r.ID] = true
		if builds[r.EnvironmentID]++; builds[r.EnvironmentID] == 1 {
			deleted[r.EnvironmentID] = b.isGone(ctx, r.EnvironmentID)
		}
		old := b.expired.due(r.ID, b.KeepFor > 0 && !isYoung(lastUse(r), b.KeepFor))
		if r.Status == environment.InProgress || r.EndedAt != nil && isYoung(*r.EndedAt, keptFor) && !deleted[r.EnvironmentID] {
			continue
		}
		isActive := slices.ContainsFunc(active, func(a environment.Record) bool { return a.ID == r.ID })
		switch {
		case deleted[r.EnvironmentID], old, builds[r.EnvironmentID] > maxKept && !isActive:
			errs = append(errs, b.remove(ctx, r, isActive))
		case isActive, !has[r.ID]:
		case r.Status == environment.Succeeded && r.Trigger != environment.AgentDraft && disks[diskOf(r)] < b.KeepBuilds:
			disks[diskOf(r)]++
		default:
			errs = append(errs, b.dropUnlessActive(ctx, r))
		}
	}
	for _, l := range layers { // layers without a record; imported layers never had one
		if strings.HasPrefix(l.ID, layer.Build+"-") && !known[l.ID] && l.Packed == nil {
			if _, err := b.Builds.Build(ctx, l.ID); errors.Is(err, store.ErrNotFound) {
				errs = append(errs, b.drop(l.ID))
			}
		}
	}
	return errors.Join(append(errs, b.tidySnapshots(ctx), b.removeFailedBuilds(ctx))...)
}

// allBuilds returns the builds of an environment, or of all environments if the
// id is "", newest first.
func (b *Builder) allBuilds(ctx context.Context, environmentID string) (all []environment.Record, err error) {
	for q := (store.Page{Limit: buildPage}); ; {
		list, err := b.Builds.ListBuilds(ctx, environmentID, q)
		if all = append(all, list...); err != nil || len(list) < q.Limit {
			return all, err
		}
		q.BeforeTime, q.BeforeID = list[len(list)-1].CreatedAt, list[len(list)-1].ID
	}
}

// diskOf returns a key for builds whose disks can replace each other. It
// includes the repositories, because a saved environment may be used for
// several sets of repositories.
func diskOf(r environment.Record) string {
	return r.EnvironmentID + " " + strings.Join(r.URLs(), " ")
}

// isGone reports whether the id belongs to a saved environment that has been
// deleted.
func (b *Builder) isGone(ctx context.Context, environmentID string) bool {
	if b.Saved == nil || !environment.IsSavedID(environmentID) {
		return false
	}
	_, err := b.Saved.Environment(ctx, environmentID)
	return errors.Is(err, store.ErrNotFound)
}

// lastUse returns roughly when a machine last started from a build.
func lastUse(r environment.Record) time.Time {
	if r.UsedAt.After(r.CreatedAt) {
		return r.UsedAt
	}
	return r.CreatedAt
}

// usedStep is the resolution of last-used times.
const usedStep = time.Hour

// recordUse records that a machine is about to start from a build.
func (b *Builder) recordUse(ctx context.Context, r environment.Record) error {
	if isYoung(r.UsedAt, usedStep) {
		return nil
	}
	r.UsedAt = time.Now().UTC()
	return b.Builds.UpdateBuild(ctx, r, false)
}

// remove removes a build with its disk, machine and log. It removes the record
// last, so that the rest can still be found after a crash.
func (b *Builder) remove(ctx context.Context, r environment.Record, active bool) error {
	if !active && b.isActive(ctx, r) {
		return nil // the build was used or replaced meanwhile
	}
	log, err := b.LogFile(r.ID)
	if err == nil {
		if err = os.Remove(log); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err := errors.Join(err, b.drop(r.ID), b.destroy(ctx, r.MachineID)); err != nil {
		return fmt.Errorf("remove build %s: %w", r.ID, err)
	}
	b.expired.forget(r.ID)
	if err := b.Builds.DeleteBuild(ctx, r.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

func (b *Builder) isActive(ctx context.Context, r environment.Record) bool {
	a, err := b.Builds.ActiveBuild(ctx, r.EnvironmentID)
	return err == nil && a.ID == r.ID
}

func (b *Builder) dropUnlessActive(ctx context.Context, r environment.Record) error {
	if b.isActive(ctx, r) {
		return nil // the build was used or replaced meanwhile
	}
	return b.drop(r.ID)
}

// drop deletes a layer that may not exist.
func (b *Builder) drop(id string) error {
	if err := b.Layers.Delete(id); err != nil && !fault.Is(err, fault.KindNotFound) {
		return err
	}
	return nil
}

// Forget stops the build of a deleted environment and removes all its builds.
// Machines that started from them keep working.
func (b *Builder) Forget(ctx context.Context, environmentID string) error {
	if b.Layers == nil {
		return nil
	}
	b.mu.Lock()
	f := b.flights[environmentID]
	b.mu.Unlock()
	if f != nil {
		f.cancel(errCancelled)
		select {
		case <-f.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	all, err := b.allBuilds(ctx, environmentID)
	errs := []error{err}
	for _, r := range all {
		errs = append(errs, b.remove(ctx, r, true))
	}
	return errors.Join(errs...)
}
