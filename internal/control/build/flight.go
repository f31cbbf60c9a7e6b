package build

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"aloft/internal/control/layer"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// runningBuild is a build in progress that several callers may wait for.
type runningBuild struct {
	plan   Plan
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when record and err are set
	record environment.Record
	err    error
	news   chan struct{} // closed and replaced when a new value is stored in last; guarded by Builder.mu
	last   string
}

// serves reports whether the running build is what the plan needs.
func (f *runningBuild) serves(p Plan) bool {
	return slices.Equal(f.plan.urls(), p.urls()) && f.plan.digest() == p.digest()
}

// Reasons why a build is stopped.
var (
	errCancelled = errors.New("it was cancelled")
	errStopped   = errors.New("the server stopped")
)

// Durations of the lease on an environment's builds.
const (
	leaseTTL   = 30 * time.Second
	leaseRetry = time.Second
)

// Ensure returns a finished build of the plan: the active build if nothing has
// changed, otherwise a build in progress or a new build. ctx bounds only the
// wait: the build continues for other callers.
func (b *Builder) Ensure(ctx context.Context, p Plan, why environment.Trigger, tell func(string)) (environment.Record, error) {
	select {
	case <-b.tidied:
	case <-ctx.Done():
		return environment.Record{}, context.Cause(ctx)
	}
	for {
		f, err := b.join(p, why)
		if err != nil {
			return environment.Record{}, err
		}
		r, err := b.await(ctx, f, tell)
		if ctx.Err() != nil {
			return r, err
		}
		may := true
		if err == nil && r.Status == environment.Succeeded {
			if may, err = b.mayStart(ctx, p, r); err != nil {
				return r, err
			}
		}
		if may && f.serves(p) {
			return r, err
		}
		// The running build was for other repositories of the saved environment, for
		// an older environment, or on a snapshot that this user may not use. Try
		// again.
	}
}

// await waits for a running build and returns its result. tell receives the
// build's progress messages.
func (b *Builder) await(ctx context.Context, f *runningBuild, tell func(string)) (environment.Record, error) {
	var told string
	var next time.Time // when to call tell again: progress is throttled
	for {
		b.mu.Lock()
		last, news := f.last, f.news
		b.mu.Unlock()
		var wait <-chan time.Time
		if d := time.Until(next); last != told && d > 0 {
			wait = time.After(d)
		} else if last != told {
			tell(last)
			told, next = last, time.Now().Add(logNews)
		}
		select {
		case <-f.done:
			return f.record, f.err
		case <-news:
		case <-wait:
		case <-ctx.Done():
			return environment.Record{}, context.Cause(ctx)
		}
	}
}

// join returns the running build of the plan's environment, and starts one if
// there is none.
func (b *Builder) join(p Plan, why environment.Trigger) (*runningBuild, error) {
	id := p.environmentID()
	b.mu.Lock()
	defer b.mu.Unlock()
	if f := b.flights[id]; f != nil {
		return f, nil
	}
	if b.ctx == nil || b.ctx.Err() != nil {
		return nil, fault.Unavailable("the server is not ready to build").Named("builder_stopped").Hint("try again in a moment")
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	f := &runningBuild{plan: p, cancel: cancel, done: make(chan struct{}), news: make(chan struct{})}
	b.flights[id] = f
	b.running.Go(func() {
		defer cancel(nil)
		f.record, f.err = b.fly(ctx, p, why, func(words string) { b.say(f, words) })
		b.mu.Lock()
		delete(b.flights, id)
		b.mu.Unlock()
		close(f.done)
		if err := b.tidy(ctx); err != nil && ctx.Err() == nil {
			b.Logger.Error("cannot remove old builds", "error", err)
		}
	})
	return f, nil
}

func (b *Builder) say(f *runningBuild, words string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.last = words
	close(f.news)
	f.news = make(chan struct{})
}

// Cancel stops this server's build of the environment.
func (b *Builder) Cancel(environmentID string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.flights[environmentID]
	if f == nil {
		return fault.Conflict("no build of %s is under way", environmentID).Named("build_not_running")
	}
	f.cancel(errCancelled)
	return nil
}

// fly makes a build if one is needed. It holds the environment's lease, which
// excludes other servers.
func (b *Builder) fly(ctx context.Context, p Plan, why environment.Trigger, tell func(string)) (environment.Record, error) {
	id := p.environmentID()
	release, err := b.lease(ctx, "build/"+id)
	if err != nil {
		return environment.Record{}, err
	}
	defer release()
	from, _, err := b.baseOf(ctx, p)
	if err != nil {
		return environment.Record{}, err
	}
	now := time.Now().UTC()
	record := environment.Record{
		ID: layer.NewID(layer.Build), EnvironmentID: id, Status: environment.InProgress, Trigger: why, Image: from.image, Base: from.layer,
		Commits: p.commits(), Digest: p.digest(), Inputs: p.Inputs,
		UserID: p.userID, User: p.Environment.User, Env: p.Environment.Env, CreatedAt: now, CheckedAt: now, UsedAt: now,
	}
	same := func(r environment.Record) bool {
		return p.isOf(r) && r.Digest == record.Digest && r.Inputs == record.Inputs
	}
	active, err := b.Builds.ActiveBuild(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return record, err
	case !p.again && same(active) && b.isMadeOn(active, from, p) && b.isAvailable(ctx, active.ID):
		return active, b.skip(ctx, active, record)
	case p.unasked: // a background check does not count as use
		record.UsedAt = active.UsedAt
	}
	if !p.again && why != environment.AgentDraft {
		older, err := b.Builds.ListBuilds(ctx, id, store.Page{Limit: maxKept})
		if err != nil {
			return record, err
		}
		for _, r := range older { // reuse an older build, for example after a change was reverted
			if r.Status == environment.Succeeded && r.Trigger != environment.AgentDraft && same(r) && b.isMadeOn(r, from, p) && b.isAvailable(ctx, r.ID) {
				return r, b.skip(ctx, r, record)
			}
		}
	}
	if why != environment.Manual && why != environment.AgentDraft {
		last, err := b.Builds.ListBuilds(ctx, id, store.Page{Limit: 1})
		if err != nil {
			return record, err
		}
		if len(last) == 1 && last[0].Status == environment.Failed && same(last[0]) && last[0].Base == from.layer && isYoung(last[0].CreatedAt, failedFor) {
			return last[0], nil
		}
	}
	if b.Room != nil {
		if err := b.Room(); err != nil {
			return record, err
		}
	}
	return b.make(ctx, record, p, tell)
}

// skip records that nothing has changed since an existing build, and makes that
// build the active one.
func (b *Builder) skip(ctx context.Context, active, record environment.Record) error {
	record.Status, record.Message = environment.Skipped, "nothing has changed since "+active.ID
	record.EndedAt = &record.CreatedAt
	active.CheckedAt = record.CreatedAt
	if err := b.Builds.AddBuild(ctx, record); err != nil {
		return err
	}
	return b.Builds.UpdateBuild(ctx, active, true)
}

// lease acquires the lease, waiting while another server holds it, and renews
// it until release is called.
func (b *Builder) lease(ctx context.Context, name string) (release func(), err error) {
	for {
		ok, err := b.Leases.Acquire(ctx, name, b.Owner, leaseTTL)
		if err != nil {
			return nil, fmt.Errorf("take the lease on builds: %w", err)
		}
		if ok {
			break
		}
		select {
		case <-time.After(leaseRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-time.After(leaseTTL / 3):
			case <-ctx.Done():
				return
			}
			if _, err := b.Leases.Acquire(ctx, name, b.Owner, leaseTTL); err != nil && ctx.Err() == nil {
				b.Logger.Error("cannot renew the lease on builds", "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		if err := b.Leases.Release(context.WithoutCancel(ctx), name, b.Owner); err != nil {
			b.Logger.Error("cannot release the lease on builds", "error", err)
		}
	}, nil
}

// Run enables builds until ctx ends. It first cleans up what a killed server
// left unfinished.
func (b *Builder) Run(ctx context.Context) error {
	if b.Layers == nil {
		close(b.tidied)
		<-ctx.Done()
		return nil
	}
	if err := b.tidyImages(); err != nil {
		b.Logger.Error("cannot clean up after image builds", "error", err)
	}
	if err := b.endUnfinished(ctx); err != nil && ctx.Err() == nil {
		b.Logger.Error("cannot end unfinished builds", "error", err)
	}
	if err := b.stopFailedBuilds(ctx); err != nil && ctx.Err() == nil {
		b.Logger.Error("cannot stop machines left by builds", "error", err)
	}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	b.mu.Lock()
	b.ctx = work
	b.mu.Unlock()
	close(b.tidied)
	b.running.Go(func() { b.watch(work) })
	b.running.Go(func() { b.endAlways(work) })
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	for {
		if err := b.tidy(ctx); err != nil && ctx.Err() == nil {
			b.Logger.Error("cannot remove old builds", "error", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			stop(errStopped)
			b.running.Wait()
			return nil
		}
	}
}
