package build

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"aloft/internal/control/gateway"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// failedBuild is the running machine of a failed install, while people inspect it.
type failedBuild struct {
	users int // number of current visitors; guarded by Builder.mu

	mu    sync.Mutex // held while the machine is started or stopped
	conn  *pod.Conn  // nil until connected
	token string
	leave func() // revokes the machine's access to git
}

// Visit gives access to the machine of a failed build. The caller must close
// it.
type Visit struct {
	Conn  *pod.Conn // shared with other visitors; do not close it
	Token string    // access token of exec-daemon
	once  sync.Once
	leave func()
}

// Close ends the visit. The machine is stopped after the last visitor.
func (v *Visit) Close() error {
	v.once.Do(v.leave)
	return nil
}

// Enter starts the machine of a build whose install failed, with the disk that
// install left and with install's environment variables. The machine is stopped
// when the last visitor closes the visit. The next visitor finds the same disk.
func (b *Builder) Enter(ctx context.Context, buildID string) (*Visit, error) {
	select {
	case <-b.tidied:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	r, err := b.Builds.Build(ctx, buildID)
	if err != nil {
		return nil, fmt.Errorf("read build: %w", err)
	}
	if r.Status != environment.Failed || r.MachineID == "" {
		return nil, fault.Conflict("the build has no failed machine to enter: it is %s", cmp.Or(string(r.FailureType), string(r.Status))).Named("no_wreck").
			Hint("only builds whose install failed keep their machine; `aloft env logs %s` shows what happened", r.ID)
	}
	b.mu.Lock()
	w := b.failed[r.ID]
	if w == nil {
		w = &failedBuild{}
		b.failed[r.ID] = w
	}
	w.users++
	b.mu.Unlock()
	leave := func() { b.leaveFailedBuild(r, w) }
	w.mu.Lock()
	err = b.raise(ctx, r, w)
	v := &Visit{Conn: w.conn, Token: w.token, leave: leave}
	w.mu.Unlock()
	if err != nil {
		leave()
		return nil, err
	}
	return v, nil
}

// raise starts the machine and connects to it unless it is up. The caller holds
// w.mu.
func (b *Builder) raise(ctx context.Context, r environment.Record, w *failedBuild) error {
	if w.conn != nil {
		select {
		case <-w.conn.Done():
			w.fall()
		default:
			return nil
		}
	}
	m, err := b.Runtime.Open(ctx, r.MachineID)
	if errors.Is(err, machine.ErrNotFound) {
		return fault.Gone("the failed machine of the build has been removed").Named("wreck_gone").
			Hint("failed machines are kept for %s (environments.wreck_for), only the latest of each environment; build again with `aloft env build`", b.FailedBuildsFor)
	}
	if err != nil {
		return err
	}
	if len(r.Commits) == 0 {
		return fault.Conflict("the build has no record of its checkouts").Named("no_wreck")
	}
	set, err := b.variables(ctx, r.EnvironmentID, r.URLs())
	if err != nil {
		return err
	}
	hide := pod.Redact(b.redactorOf(set))
	conn, err := pod.Dial(ctx, m, gateway.Of(b.Gateway, r.ID), hide)
	if errors.Is(err, machine.ErrStopped) {
		if err := m.Restart(ctx); err != nil {
			return err
		}
		conn, err = pod.Dial(ctx, m, gateway.Of(b.Gateway, r.ID), hide)
	}
	if err != nil {
		return err
	}
	credential, err := b.Gateway.Grant(gateway.Grant{AgentID: r.ID, RunID: r.ID, Repos: r.URLs(), Secrets: set.Values()})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	token := make([]byte, 32)
	_, _ = rand.Read(token) // never fails
	w.conn, w.token, w.leave = conn, hex.EncodeToString(token), func() { b.Gateway.Revoke(credential) }
	env := maps.Clone(r.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, set.Environ())
	boot := pod.Boot{User: r.User, Env: env, GitCredential: credential, ExecToken: w.token}
	boot.Checkout, boot.Others = checkouts(r)
	_, err = conn.Boot(ctx, boot, func(pod.Step) {})
	if err != nil {
		w.fall()
	}
	return err
}

// fall closes the connection to the machine. The caller holds w.mu.
func (w *failedBuild) fall() {
	if w.conn != nil {
		_ = w.conn.Close() // the machine is stopped anyway
		w.leave()
		w.conn = nil
	}
}

// leaveFailedBuild removes one visitor, and stops the machine after the last.
func (b *Builder) leaveFailedBuild(r environment.Record, w *failedBuild) {
	b.mu.Lock()
	w.users--
	b.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	b.mu.Lock()
	last := w.users == 0
	b.mu.Unlock()
	if !last {
		return
	}
	w.fall()
	if err := b.stopFailedBuild(context.Background(), r.MachineID); err != nil {
		b.Logger.Error("cannot stop the machine of a failed build", "build", r.ID, "error", err)
	}
	b.mu.Lock()
	if w.users == 0 {
		delete(b.failed, r.ID)
	}
	b.mu.Unlock()
}

// stopTime is the timeout for stopping the machine of a failed build.
const stopTime = time.Minute

func (b *Builder) stopFailedBuild(ctx context.Context, machineID string) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	m, err := b.Runtime.Open(ctx, machineID)
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if s, ok := m.(machine.Snapshotter); ok {
		return s.Stop(ctx)
	}
	return nil
}

// removeFailedBuilds destroys machines of builds, except those with visitors
// and the machine of each environment's latest failed build. The latter are
// kept for FailedBuildsFor, and, newest first, up to FailedBuildsBytes in
// total.
func (b *Builder) removeFailedBuilds(ctx context.Context) error {
	ids, err := b.Runtime.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	var kept []environment.Record
	for _, id := range ids {
		buildID, ok := buildOf(id)
		if !ok {
			continue
		}
		r, err := b.Builds.Build(ctx, buildID)
		b.mu.Lock()
		visited := b.failed[buildID] != nil
		b.mu.Unlock()
		switch {
		case visited, err == nil && r.Status == environment.InProgress:
		case err == nil && r.Status == environment.Failed && isYoung(r.CreatedAt, b.FailedBuildsFor) && b.isLast(ctx, r):
			kept = append(kept, r)
		default:
			errs = append(errs, b.destroy(ctx, id))
		}
	}
	slices.SortFunc(kept, func(x, y environment.Record) int { return y.CreatedAt.Compare(x.CreatedAt) })
	var sum int64
	for _, r := range kept {
		size, err := b.failedBuildSize(ctx, r.MachineID)
		if sum += size; err == nil && b.FailedBuildsBytes > 0 && sum > b.FailedBuildsBytes {
			b.Logger.Info("removed the machine of a failed build: it used too much disk space", "build", r.ID, "bytes", size)
			sum -= size
			errs = append(errs, b.destroy(ctx, r.MachineID))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stopFailedBuilds stops the machines of failed builds that visitors used when an
// earlier server died. It must not run during a build.
func (b *Builder) stopFailedBuilds(ctx context.Context) error {
	ids, err := b.Runtime.List(ctx)
	errs := []error{err}
	for _, id := range ids {
		if _, ok := buildOf(id); ok {
			errs = append(errs, b.stopFailedBuild(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// isLast reports whether the build is the newest of its environment.
func (b *Builder) isLast(ctx context.Context, r environment.Record) bool {
	last, err := b.Builds.ListBuilds(ctx, r.EnvironmentID, store.Page{Limit: 1})
	return err != nil || len(last) == 1 && last[0].ID == r.ID
}

// failedBuildSize returns how many bytes of the disk the machine of a failed build
// uses, or 0 if that cannot be measured.
func (b *Builder) failedBuildSize(ctx context.Context, machineID string) (int64, error) {
	m, err := b.Runtime.Open(ctx, machineID)
	if errors.Is(err, machine.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if d, ok := m.(machine.Measured); ok && b.FailedBuildsBytes > 0 {
		return d.DiskBytes(ctx)
	}
	return 0, nil
}
