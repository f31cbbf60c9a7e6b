package build

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/store"
	"aloft/internal/environment"
	"aloft/internal/secret"
)

// later ages all records by d, and advances the clock until the grace period is
// over.
func (s *site) later(t *testing.T, d time.Duration) {
	t.Helper()
	all, err := s.builder.allBuilds(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		r.CreatedAt, r.CheckedAt, r.UsedAt = r.CreatedAt.Add(-d), r.CheckedAt.Add(-d), r.UsedAt.Add(-d)
		if r.EndedAt != nil {
			at := r.EndedAt.Add(-d)
			r.EndedAt = &at
		}
		if err := s.store.UpdateBuild(t.Context(), r, false); err != nil {
			t.Fatal(err)
		}
	}
}

// tidied runs tidy twice, with the grace period in between.
func (s *site) tidied(t *testing.T) {
	t.Helper()
	now := time.Now()
	if clock := s.builder.expired.now; clock != nil {
		now = clock() // continue from the clock's current time
	}
	s.builder.expired.now = func() time.Time { return now }
	for range 2 {
		if err := s.builder.tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		now = now.Add(2 * grace)
	}
}

func (s *site) disks(t *testing.T) (ids []string) {
	t.Helper()
	list, err := s.runtime.Layers().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		ids = append(ids, l.ID)
	}
	return ids
}

// TestRetention checks that tidy keeps the disks of each environment's newest
// builds, that a reverted change uses one of them again, and that tidy keeps
// none once the environment is unused.
func TestRetention(t *testing.T) {
	s, git := opened(t, t.TempDir(), func(c *Config) { c.KeepBuilds, c.KeepFor = 2, 30*24*time.Hour }), gittest.New(t)
	url := git.Repo("r", map[string]string{"README": "x"})
	var made []environment.Record
	for _, install := range []string{"echo one", "echo two", "echo three"} {
		committed(git, "r", install)
		made = append(made, s.built(t, url, environment.Succeeded))
	}
	s.later(t, time.Hour)
	s.tidied(t)
	if got := strings.Join(s.disks(t), " "); strings.Contains(got, made[0].ID) || !strings.Contains(got, made[1].ID) || !strings.Contains(got, made[2].ID) {
		t.Errorf("the disks are %s of %s, %s, %s", got, made[0].ID, made[1].ID, made[2].ID)
	}
	if _, err := s.store.Build(t.Context(), made[0].ID); err != nil {
		t.Errorf("a young build is forgotten: %v", err)
	}

	committed(git, "r", "echo two")
	if r := s.built(t, url, environment.Succeeded); r.ID != made[1].ID {
		t.Errorf("changed back, it is %s; want %s again", r.ID, made[1].ID)
	}
	if a, err := s.store.ActiveBuild(t.Context(), made[1].EnvironmentID); err != nil || a.ID != made[1].ID {
		t.Errorf("the active one is %s, %v", a.ID, err)
	}
	p, err := s.builder.plan(t.Context(), source{repoURL: url, ref: "", userID: 0})
	if err != nil {
		t.Fatal(err)
	}
	p.again = true
	again, err := s.builder.Ensure(t.Context(), p, environment.Manual, func(string) {})
	if err != nil || again.ID == made[1].ID || again.Status != environment.Succeeded {
		t.Errorf("built again though nothing has changed: %+v, %v", again, err)
	}

	// A clock that jumps a year ahead and back removes nothing.
	s.later(t, 365*24*time.Hour)
	if err := s.builder.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.later(t, -365*24*time.Hour)
	s.tidied(t)
	if got := strings.Join(s.disks(t), " "); !strings.Contains(got, again.ID) {
		t.Errorf("after a jump of the clock the disks are %s", got)
	}
	s.later(t, 60*24*time.Hour)
	s.tidied(t)
	if got := s.disks(t); len(got) != 0 {
		t.Errorf("after two months without use the disks are %s", got)
	}
	if left, err := s.builder.allBuilds(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("after two months there are %+v, %v", left, err)
	}
	if logs, err := os.ReadDir(s.builder.Dir); err != nil || len(logs) != 0 {
		t.Errorf("logs are left: %v, %v", logs, err)
	}
}

// TestForget checks that deleting an environment deletes its builds, except
// those that a machine depends on, and that tidy later removes leftovers of a
// crash.
func TestForget(t *testing.T) {
	s, git := opened(t, t.TempDir(), func(c *Config) { c.KeepBuilds = 2 }), gittest.New(t)
	url := git.Repo("r", map[string]string{"README": "x"})
	save := func() environment.Saved {
		t.Helper()
		now := time.Now()
		e := environment.Saved{ID: environment.NewID(), Repos: []string{url}, Text: `{"install": "echo kept | tee /tmp/kept"}`, VersionID: environment.NewVersionID(), CreatedAt: now, UpdatedAt: now}
		if err := s.store.PutEnvironment(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := save()
	r := s.built(t, url, environment.Succeeded)
	if r.EnvironmentID != e.ID {
		t.Fatalf("the build is of %s", r.EnvironmentID)
	}
	m, err := s.runtime.Create(t.Context(), machine.Spec{ID: "m-1", Image: r.Image, Layer: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Destroy(t.Context()) }()
	if err := errors.Join(s.store.DeleteEnvironment(t.Context(), e.ID), s.builder.Forget(t.Context(), e.ID)); err != nil {
		t.Fatal(err)
	}
	if got := s.disks(t); len(got) != 0 {
		t.Errorf("disks are kept: %s", got)
	}
	if _, err := s.store.Build(t.Context(), r.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the build is there: %v", err)
	}
	if _, err := s.runtime.Layers().Layer(r.ID); err != nil {
		t.Errorf("what a machine stands on is gone: %v", err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.runtime.Layers().Collect(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.runtime.Layers().Layer(r.ID); err == nil {
		t.Error("what nothing stands on any more is there")
	}

	// The server dies after it has deleted an environment but not its builds,
	// or a record but not its layer.
	e = save()
	r = s.built(t, url, environment.Succeeded)
	if err := s.store.DeleteEnvironment(t.Context(), e.ID); err != nil {
		t.Fatal(err)
	}
	other := save()
	orphan := s.built(t, url, environment.Succeeded)
	if err := errors.Join(s.store.DeleteEnvironment(t.Context(), other.ID), s.store.DeleteBuild(t.Context(), orphan.ID)); err != nil {
		t.Fatal(err)
	}
	s.tidied(t)
	if got := s.disks(t); len(got) != 0 {
		t.Errorf("of what is deleted there is %s; %s and %s were", got, r.ID, orphan.ID)
	}
}

// TestSnapshotExpires checks that an unused snapshot expires after the grace
// period and a used one does not. Later machines start from the next base, with
// a note.
func TestSnapshotExpires(t *testing.T) {
	s, git := opened(t, t.TempDir(), func(c *Config) { c.SnapshotFor = 24 * time.Hour }), gittest.New(t)
	url := git.Repo("r", map[string]string{"README": "x"})
	m, err := s.runtime.Create(t.Context(), machine.Spec{ID: "m-1", Image: "host"})
	if err != nil {
		t.Fatal(err)
	}
	id := layer.NewID(layer.Snapshot)
	saver := m.(machine.Snapshotter)
	old := time.Now().Add(-48 * time.Hour)
	if err := errors.Join(
		saver.Stop(t.Context()),
		s.builder.SaveSnapshot(t.Context(), environment.Snapshot{ID: id, Repo: secret.Repo(url), CreatedAt: old}, saver.Freeze),
		m.Destroy(t.Context()),
	); err != nil {
		t.Fatal(err)
	}
	git.Commit("r", "main", "Name it", map[string]string{".aloft/environment.json": `{"snapshot": "` + id + `"}`})
	base := func() Base {
		t.Helper()
		p, err := s.builder.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.builder.Prepare(t.Context(), p, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if err := s.builder.tidy(t.Context()); err != nil { // the grace period starts here
		t.Fatal(err)
	}
	if got := base(); got.Layer != id || len(got.Notes) != 0 {
		t.Errorf("within the grace a machine starts from %+v", got)
	}
	s.tidied(t) // it has just been used
	if n, err := s.store.Snapshot(t.Context(), id); err != nil || time.Since(n.UsedAt) > time.Minute {
		t.Errorf("a snapshot that is used: %+v, %v", n, err)
	}
	if err := s.store.UseSnapshot(t.Context(), id, old); err != nil {
		t.Fatal(err)
	}
	s.tidied(t)
	if got := base(); got.Layer != "" || got.Image != "host" || len(got.Notes) != 1 || !strings.Contains(got.Notes[0], id+" does not exist, has expired") {
		t.Errorf("after it has expired a machine starts from %+v", got)
	}
	if _, err := s.store.Snapshot(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is still known: %v", err)
	}
}

// TestLook checks when the server rebuilds environments in the background. It
// must rebuild after changes of the branch, and periodically while the
// environment is in use. It must not rebuild after a failure that somebody has
// to fix, or while the environment is unused.
func TestLook(t *testing.T) {
	s, git := opened(t, t.TempDir(), func(c *Config) { c.WatchEvery, c.RebuildEvery, c.KeepBuilds = time.Minute, 24*time.Hour, 1 }), gittest.New(t)
	url := git.Repo("r", map[string]string{"package-lock.json": "1"})
	committed(git, "r", "echo one")
	id := s.built(t, url, environment.Succeeded).EnvironmentID
	look := func() (all []environment.Record) {
		t.Helper()
		active, err := s.store.ActiveBuild(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.builder.look(t.Context(), active); err != nil {
			t.Fatal(err)
		}
		if all, err = s.builder.allBuilds(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return all
	}
	newest := func(what string, n int, why environment.Trigger, status environment.Status) environment.Record {
		t.Helper()
		all := look()
		if len(all) != n || all[0].Trigger != why || all[0].Status != status {
			t.Fatalf("%s: %d builds, the newest %+v; want %d, %s, %s", what, len(all), all[0], n, why, status)
		}
		return all[0]
	}
	newest("nothing has changed", 1, environment.Manual, environment.Succeeded)
	git.Commit("r", "main", "Lock", map[string]string{"package-lock.json": "2"})
	newest("what install reads has changed", 1, environment.Manual, environment.Succeeded)
	committed(git, "r", "echo two")
	used := newest("the environment has changed", 2, environment.ConfigChange, environment.Succeeded).UsedAt

	s.later(t, 25*time.Hour)
	newest("a day later", 3, environment.Recurring, environment.Skipped)
	git.Commit("r", "main", "Lock", map[string]string{"package-lock.json": "3"})
	newest("just looked at", 3, environment.Recurring, environment.Skipped)
	s.later(t, 25*time.Hour)
	r := newest("another day later", 4, environment.Recurring, environment.Succeeded)
	if want := used.Add(-50 * time.Hour); r.UsedAt.Sub(want).Abs() > time.Second {
		t.Errorf("it counts as a use: %s, not %s", r.UsedAt, want)
	}

	committed(git, "r", "exit 1")
	newest("a change for the worse", 5, environment.ConfigChange, environment.Failed)
	newest("which nobody mends", 5, environment.ConfigChange, environment.Failed)
	committed(git, "r", "echo mended")
	s.later(t, usedFor)
	newest("nobody uses it", 5, environment.ConfigChange, environment.Failed)
}
