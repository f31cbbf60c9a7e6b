package build

import (
	"context"
	"strings"
	"testing"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/pod"
	"aloft/internal/environment"
	"aloft/internal/secret"
)

// TestSnapshotsOfOthers has a member save a disk that contains the member's
// program. Other users' machines contain those users' secrets. So they must not
// start from that snapshot, or from a build on it, until an admin has published
// it, whether the environment names the snapshot or lets the server choose.
func TestSnapshotsOfOthers(t *testing.T) {
	const mallory, victim, admin = 7, 8, 9
	git := gittest.New(t)
	s := opened(t, t.TempDir())
	m, err := s.runtime.Create(t.Context(), machine.Spec{ID: "set-up", Image: "host"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pod.Dial(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Boot(t.Context(), pod.Boot{ExecToken: strings.Repeat("0", 64)}, func(pod.Step) {}); err != nil {
		t.Fatal(err)
	}
	if exit, err := conn.RunCommand(t.Context(), "echo trojan > ~/trojan; sync", time.Minute, new(strings.Builder)); err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := m.(machine.Snapshotter).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := layer.NewID(layer.Snapshot)
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"snapshot": "POPULATED_FROM_SETTINGS"}`})
	n := environment.Snapshot{ID: id, UserID: mallory, Repo: secret.Repo(url), AgentID: "bc-1", CreatedAt: time.Now().UTC()}
	if err := s.builder.SaveSnapshot(t.Context(), n, m.(machine.Snapshotter).Freeze); err != nil {
		t.Fatal(err)
	}
	begin := func(user int64) Base {
		t.Helper()
		p, err := s.builder.Plan(t.Context(), agent.Agent{UserID: user, Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.builder.Prepare(t.Context(), p, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	infected := func(from Base) bool {
		t.Helper()
		if from.Layer == "" {
			return false
		}
		return s.on(t, environment.Record{ID: from.Layer, Image: from.Image}, "cat ~/trojan 2>/dev/null || echo clean") == "trojan\n"
	}
	for _, file := range []string{
		`{"snapshot": "POPULATED_FROM_SETTINGS"}`, `{"snapshot": "` + id + `"}`,
		`{"snapshot": "POPULATED_FROM_SETTINGS", "install": "true"}`, `{"snapshot": "` + id + `", "install": "true"}`,
		`{"snapshot": "` + id + `", "install": "test -e ~/trojan"}`, // install fails without the snapshot's files
	} {
		git.Commit("app", "main", "change", map[string]string{".aloft/environment.json": file})
		if err := s.store.PublishSnapshot(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if !infected(begin(mallory)) {
			t.Errorf("%s: its own user's machine does not start from the snapshot", file)
		}
		if from := begin(victim); infected(from) || len(from.Notes) == 0 {
			t.Errorf("%s: another's machine starts from %+v", file, from)
		}
		if err := s.store.PublishSnapshot(context.Background(), id, admin); err != nil {
			t.Fatal(err)
		}
		if !infected(begin(victim)) {
			t.Errorf("%s: another's machine does not start from the published snapshot", file)
		}
	}
}
