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

// wreck is the machine of a failed install, while people look at it.
type wreck struct {
	users int // guarded by Builder.mu

	mu    sync.Mutex // held while the machine is started or stopped
	conn  *pod.Conn  // nil until dialed
	token string
	leave func() // ends what the machine was given
}

// Visit is a way into the wreck of a build. Close it when done.
type Visit struct {
	Conn  *pod.Conn // shared by all who are there; not to be closed
	Token string    // exec-daemon's
	once  sync.Once
	leave func()
}

// Close leaves the wreck, which is stopped when the last has left.
func (v *Visit) Close() error {
	v.once.Do(v.leave)
	return nil
}

// Enter starts the machine of a build whose install has failed, as install has
// left its disk and with what install was given. It is stopped when the last who
// came has left; what they have changed is there for the next.
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
		return nil, fault.Conflict("the build has left no wreck: it is %s", cmp.Or(string(r.FailureType), string(r.Status))).Named("no_wreck").
			Hint("a machine is kept of a build whose install has failed; `aloft env logs %s` shows what happened", r.ID)
	}
	b.mu.Lock()
	w := b.wrecks[r.ID]
	if w == nil {
		w = &wreck{}
		b.wrecks[r.ID] = w
	}
	w.users++
	b.mu.Unlock()
	leave := func() { b.leaveWreck(r, w) }
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

// raise starts and boots the machine, where it is not up. The caller holds w.mu.
func (b *Builder) raise(ctx context.Context, r environment.Record, w *wreck) error {
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
		return fault.Gone("the wreck of the build is removed").Named("wreck_gone").
			Hint("wrecks are kept for %s (environments.wreck_for), and each environment's last one only; build again with `aloft env build`", b.WreckFor)
	}
	if err != nil {
		return err
	}
	if len(r.Commits) == 0 {
		return fault.Conflict("the build does not say what was checked out").Named("no_wreck")
	}
	set, err := b.variables(ctx, r.EnvironmentID, r.URLs())
	if err != nil {
		return err
	}
	hide := pod.Redact(b.redactorOf(set))
	conn, err := pod.Dial(ctx, m, b.Gateway, hide)
	if errors.Is(err, machine.ErrStopped) {
		if err := m.Restart(ctx); err != nil {
			return err
		}
		conn, err = pod.Dial(ctx, m, b.Gateway, hide)
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

// fall ends the connection to the machine. The caller holds w.mu.
func (w *wreck) fall() {
	if w.conn != nil {
		_ = w.conn.Close() // what closing says is of no use
		w.leave()
		w.conn = nil
	}
}

// leaveWreck counts one visitor less, and stops the machine after the last.
func (b *Builder) leaveWreck(r environment.Record, w *wreck) {
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
	if err := b.stopWreck(context.Background(), r.MachineID); err != nil {
		b.Logger.Error("the wreck of a build cannot be stopped", "build", r.ID, "error", err)
	}
	b.mu.Lock()
	if w.users == 0 {
		delete(b.wrecks, r.ID)
	}
	b.mu.Unlock()
}

// stopTime is how long stopping a wreck may take.
const stopTime = time.Minute

func (b *Builder) stopWreck(ctx context.Context, machineID string) error {
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

// tidyWrecks destroys the machines of builds, but for those that are in use and
// each environment's last that failed, while it is young and all together do not
// take too much of the disk: the newest are kept.
func (b *Builder) tidyWrecks(ctx context.Context) error {
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
		visited := b.wrecks[buildID] != nil
		b.mu.Unlock()
		switch {
		case visited, err == nil && r.Status == environment.InProgress:
		case err == nil && r.Status == environment.Failed && young(r.CreatedAt, b.WreckFor) && b.isLast(ctx, r):
			kept = append(kept, r)
		default:
			errs = append(errs, b.destroy(ctx, id))
		}
	}
	slices.SortFunc(kept, func(x, y environment.Record) int { return y.CreatedAt.Compare(x.CreatedAt) })
	var sum int64
	for _, r := range kept {
		size, err := b.wreckSize(ctx, r.MachineID)
		if sum += size; err == nil && b.WreckBytes > 0 && sum > b.WreckBytes {
			b.Logger.Info("the wreck of a build takes too much of the disk, and is removed", "build", r.ID, "bytes", size)
			sum -= size
			errs = append(errs, b.destroy(ctx, r.MachineID))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// stopWrecks stops the machines of builds that a server before this one had
// visitors in. Nothing is built meanwhile.
func (b *Builder) stopWrecks(ctx context.Context) error {
	ids, err := b.Runtime.List(ctx)
	errs := []error{err}
	for _, id := range ids {
		if _, ok := buildOf(id); ok {
			errs = append(errs, b.stopWreck(ctx, id))
		}
	}
	return errors.Join(errs...)
}

// isLast reports whether no build of its environment is newer.
func (b *Builder) isLast(ctx context.Context, r environment.Record) bool {
	last, err := b.Builds.ListBuilds(ctx, r.EnvironmentID, store.Page{Limit: 1})
	return err != nil || len(last) == 1 && last[0].ID == r.ID
}

// wreckSize is how many bytes of the disk a wreck takes; 0 where that cannot be seen.
func (b *Builder) wreckSize(ctx context.Context, machineID string) (int64, error) {
	m, err := b.Runtime.Open(ctx, machineID)
	if errors.Is(err, machine.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if d, ok := m.(machine.Measured); ok && b.WreckBytes > 0 {
		return d.DiskBytes(ctx)
	}
	return 0, nil
}
