package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/secret"
)

// snapshot saves the disk of a stopped machine for a repository.
func (s *site) snapshot(url, machineID, id string) error {
	m, err := s.runtime.Open(context.Background(), machineID)
	if err != nil {
		return err
	}
	n := environment.Snapshot{ID: id, Repo: secret.Repo(url), CreatedAt: time.Now().UTC()}
	return s.builder.SaveSnapshot(context.Background(), n, m.(machine.Snapshotter).Freeze)
}

// snapshots fails the test unless the recorded snapshots and the saved disks
// both equal want.
func (s *site) snapshots(t *testing.T, want ...string) {
	t.Helper()
	records, err := s.store.AllSnapshots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layers, err := s.runtime.Layers().List()
	if err != nil {
		t.Fatal(err)
	}
	var recorded, kept []string
	for _, n := range records {
		recorded = append(recorded, n.ID)
	}
	for _, l := range layers {
		kept = append(kept, l.ID)
	}
	slices.Sort(recorded)
	slices.Sort(kept)
	slices.Sort(want)
	if !slices.Equal(recorded, want) || !slices.Equal(kept, want) {
		t.Errorf("recorded are %v, kept %v; want %v", recorded, kept, want)
	}
}

// base returns the base from which a machine of the repository would start.
func (s *site) base(t *testing.T, url string) Base {
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

// TestServerIsKilledInASnapshot kills the server before and after a machine's
// disk becomes a snapshot. The next server must list only complete snapshots,
// machines must start only from those, and the saved machine must continue.
func TestServerIsKilledInASnapshot(t *testing.T) {
	git, dir := gittest.New(t), t.TempDir()
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"snapshot": "POPULATED_FROM_SETTINGS"}`})
	s := opened(t, dir)
	m, err := s.runtime.Create(t.Context(), machine.Spec{ID: "set-up", Image: "host"})
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		conn, err := pod.Dial(t.Context(), m, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Boot(t.Context(), pod.Boot{ExecToken: strings.Repeat("0", 64)}, func(pod.Step) {}); err != nil {
			t.Fatal(err)
		}
		if exit, err := conn.RunCommand(t.Context(), "echo "+text+" >> ~/made; sync", time.Minute, new(strings.Builder)); err != nil || exit.Code != 0 {
			t.Fatal(exit, err)
		}
		if err := m.(machine.Snapshotter).Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	first := layer.NewID(layer.Snapshot)
	if err := s.snapshot(url, "set-up", first); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"snapshot: recorded", "snapshot: saved"} {
		t.Run(step, func(t *testing.T) {
			again(t, m)
			write("second")
			s.shut(t)
			id := layer.NewID(layer.Snapshot)
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, url, step, "set-up", id}, "|"))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != -1 {
				t.Fatalf("the server was not killed: %v: %s", err, out)
			}
			if *s, err = open(dir); err != nil {
				t.Fatal(err)
			}
			<-s.builder.tidied
			want, made := []string{first}, "first\n"
			if step == "snapshot: saved" {
				want, made = append(want, id), "first\nsecond\nsecond\n"
			}
			from := s.base(t, url)
			if from.Layer != want[len(want)-1] || len(from.Notes) > 0 {
				t.Errorf("a machine begins with %+v, want %s", from, want[len(want)-1])
			}
			if got := s.on(t, environment.Record{ID: from.Layer, Image: from.Image}, "cat ~/made"); got != made {
				t.Errorf("it has %q", got)
			}
			if err := s.builder.tidy(t.Context()); err != nil { // the server does this when it starts
				t.Fatal(err)
			}
			s.snapshots(t, want...)
			if m, err = s.runtime.Open(t.Context(), "set-up"); err != nil {
				t.Fatal(err)
			}
		})
	}
	again(t, m)
	write("third")
	all := []string{layer.NewID(layer.Snapshot)}
	if err := s.snapshot(url, "set-up", all[0]); err != nil {
		t.Fatal(err)
	}
	// A snapshot whose disk could not be saved leaves no record.
	why := fault.Conflict("the agent works")
	n := environment.Snapshot{ID: layer.NewID(layer.Snapshot), Repo: secret.Repo(url), CreatedAt: time.Now().UTC()}
	if err := s.builder.SaveSnapshot(t.Context(), n, func(context.Context, string) error { return why }); !errors.Is(err, why) {
		t.Errorf("a snapshot that could not be made: %v", err)
	}
	// If the operator has deleted a disk, the next tidy removes its record.
	layers, err := s.runtime.Layers().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if l.ID != all[0] {
			if err := s.runtime.Layers().Delete(l.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.builder.tidy(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.snapshots(t, all...)
	if got := s.on(t, environment.Record{ID: all[0], Image: "host"}, "cat ~/made"); got != "first\nsecond\nsecond\nthird\n" {
		t.Errorf("the last one has %q", got)
	}
}

// again restarts a stopped machine with its disk.
func again(t *testing.T, m machine.Machine) {
	t.Helper()
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}
