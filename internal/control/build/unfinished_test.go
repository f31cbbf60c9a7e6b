package build

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"

	"aloft/internal/control/layer"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/environment"
	"aloft/internal/fault"
)

// lossy is a store that performs every second update but never acknowledges
// one.
type lossy struct {
	store.Builds
	fail int // remaining failures
	kept []environment.Status
}

func (l *lossy) UpdateBuild(_ context.Context, r environment.Record, _ bool) error {
	if l.fail > 0 {
		if l.fail--; l.fail%2 == 0 {
			return store.ErrUnreachable
		}
		l.kept = append(l.kept, r.Status)
		return store.ErrUnknown
	}
	l.kept = append(l.kept, r.Status)
	return nil
}

// TestEndOfBuildIsWritten checks that the end of a build is recorded even if
// updates fail repeatedly, and that the retries stop when the server stops.
func TestEndOfBuildIsWritten(t *testing.T) {
	for _, failures := range []int{0, 1, 2, 9} {
		synctest.Test(t, func(t *testing.T) {
			l := &lossy{fail: failures}
			b := New(Config{Builds: l})
			b.ctx = t.Context()
			if err := b.close(environment.Record{ID: "bld", Status: environment.Succeeded}, true); err != nil || l.fail > 0 || len(l.kept) == 0 {
				t.Errorf("after %d failures: %v, kept %v", failures, err, l.kept)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := New(Config{Builds: &lossy{fail: 1 << 30}})
		var stop context.CancelFunc
		b.ctx, stop = context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.close(environment.Record{ID: "bld"}, false) }()
		synctest.Wait()
		stop()
		if err := <-ended; err == nil {
			t.Error("an update that was lost is taken for written")
		}
	})
}

// noLayers is an empty layer store.
type noLayers struct{ Layers }

func (noLayers) Delete(id string) error { return fault.NotFound("no layer %s", id) }

// TestUnfinishedBuildsEnd checks that a running server ends abandoned builds,
// but neither its own builds nor those of another server that holds the lease.
func TestUnfinishedBuildsEnd(t *testing.T) {
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	b := New(Config{Builds: st, Leases: st, Owner: "one", Layers: noLayers{}})
	b.flights["own"] = &runningBuild{}
	if ok, err := st.Acquire(t.Context(), "build/other", "two", leaseTTL); err != nil || !ok {
		t.Fatal(ok, err)
	}
	ids := map[string]string{}
	for _, env := range []string{"left", "own", "other"} {
		ids[env] = layer.NewID(layer.Build)
		if err := st.AddBuild(t.Context(), environment.Record{ID: ids[env], EnvironmentID: env, Status: environment.InProgress}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.endUnfinished(t.Context()); err != nil {
		t.Fatal(err)
	}
	for env, want := range map[string]environment.Status{"left": environment.Failed, "own": environment.InProgress, "other": environment.InProgress} {
		if r, err := st.Build(t.Context(), ids[env]); err != nil || r.Status != want {
			t.Errorf("the build of %q is %s, %v; want %s", env, r.Status, err, want)
		}
	}
	if ok, err := st.Acquire(t.Context(), "build/left", "two", leaseTTL); err != nil || !ok {
		t.Errorf("its lease is kept: %v", err)
	}
}
