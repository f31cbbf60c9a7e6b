package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/agent"
	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/pod"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/environment"
	"aloft/internal/fault"
	"aloft/internal/need"
	"aloft/internal/secret"
)

const childEnv = "ALOFT_TEST_CHILD"

func TestMain(m *testing.M) {
	if args, ok := os.LookupEnv(childEnv); ok {
		if err := child(strings.Split(args, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs a server on the folder args[0], which is killed at the step
// args[2]. The server builds the environment of the repository args[1]. If
// args[3] and args[4] are given, it instead saves the disk of the machine
// args[3] as the snapshot args[4].
func child(args []string) error {
	s, err := open(args[0])
	if err != nil {
		return err
	}
	s.builder.step = func(step string) {
		if step == args[2] {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
	if len(args) > 3 {
		err = s.snapshot(args[1], args[3], args[4])
	} else {
		_, err = s.build(context.Background(), args[1])
	}
	return errors.Join(err, s.close())
}

// site contains everything that a server needs for builds: store, layers,
// machines and git gateway.
type site struct {
	dir     string
	store   *sqlite.Store
	gateway *gateway.Gateway
	runtime *container.Runtime
	builder *Builder
	stop    context.CancelFunc
	ended   chan error
}

// open opens a site on a folder, with the given changes to the Builder's
// configuration.
func open(dir string, set ...func(*Config)) (_ site, err error) {
	s := site{dir: dir, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if s.store, err = sqlite.Open(ctx, filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler)); err != nil {
		return s, err
	}
	if s.gateway, err = gateway.New(gateway.Config{Dir: filepath.Join(dir, "mirrors"), Environ: os.Environ()}); err != nil {
		return s, err
	}
	runc, err := filepath.Abs("../../../.bin/runc")
	if err != nil {
		return s, err
	}
	bin, err := filepath.Abs("../../../bin")
	if err != nil {
		return s, err
	}
	if s.runtime, err = container.New(container.Config{Dir: filepath.Join(dir, "machines"), RuntimePath: runc, Binaries: bin}); err != nil {
		return s, err
	}
	conf := Config{
		Files: s.gateway, Gateway: s.gateway, Builds: s.store, Saved: s.store, Snapshots: s.store, Leases: s.store, Owner: s.store.ServerID(),
		Runtime: s.runtime, Layers: s.runtime.Layers(), Dir: filepath.Join(dir, "builds"), Image: "host", InstallLimit: time.Minute,
		HaveImage: func(ctx context.Context, name string) error {
			_, err := s.runtime.Images().Prepare(ctx, name, nil)
			return err
		},
	}
	for _, f := range set {
		f(&conf)
	}
	s.builder = New(conf)
	go func() { s.ended <- s.builder.Run(ctx) }()
	return s, nil
}

func (s *site) close() error {
	s.stop()
	return errors.Join(<-s.ended, s.runtime.Close(), s.gateway.Close(), s.store.Close())
}

// opened opens a site that is closed when the test ends. Its machines keep
// running.
func opened(t *testing.T, dir string, set ...func(*Config)) *site {
	t.Helper()
	need.Root(t)
	for _, file := range []string{"../../../.bin/runc", "../../../bin/pod-daemon", "../../../bin/exec-daemon"} {
		need.File(t, filepath.Base(file), file)
	}
	s, err := open(dir, set...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ids, err := s.runtime.List(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, id := range ids {
			if err := s.builder.destroy(context.Background(), id); err != nil {
				t.Error(err)
			}
		}
		s.shut(t)
	})
	return &s
}

func (s *site) shut(t *testing.T) {
	t.Helper()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// build builds the current environment of a repository.
func (s *site) build(ctx context.Context, url string) (environment.Record, error) {
	p, err := s.builder.Plan(ctx, agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, "")
	if err != nil {
		return environment.Record{}, err
	}
	return s.builder.Ensure(ctx, p, environment.Manual, func(string) {})
}

// built builds the environment of a repository. It fails the test unless the
// build ends with the status want.
func (s *site) built(t *testing.T, url string, want environment.Status) environment.Record {
	t.Helper()
	r, err := s.build(t.Context(), url)
	if err != nil || r.Status != want {
		t.Fatalf("the build is %+v, %v; want %s", r, err, want)
	}
	return r
}

// agree fails the test unless every build has ended, every active build has a
// layer, no failed build has a layer, and no machine is left.
func (s *site) agree(t *testing.T) {
	t.Helper()
	open, err := s.store.OpenBuilds(t.Context())
	if err != nil || len(open) > 0 {
		t.Errorf("builds are open: %+v, %v", open, err)
	}
	active, err := s.store.ActiveBuilds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.runtime.Layers().List()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range kept { // a build that was active keeps its layer for a while
		if r, err := s.store.Build(t.Context(), l.ID); err != nil || r.Status != environment.Succeeded {
			t.Errorf("the layer %s is of the build %+v, %v", l.ID, r, err)
		}
	}
	for _, r := range active {
		if l, err := s.runtime.Layers().Layer(r.ID); err != nil || !l.Kept || r.Status != environment.Succeeded {
			t.Errorf("the active build %+v has the layer %+v, %v", r, l, err)
		}
	}
	if ids, err := s.runtime.List(t.Context()); err != nil || len(ids) > 0 {
		t.Errorf("machines are left: %v, %v", ids, err)
	}
}

// on runs a command in a machine that starts from a build.
func (s *site) on(t *testing.T, r environment.Record, command string) string {
	t.Helper()
	m, err := s.runtime.Create(t.Context(), machine.Spec{ID: "m-1", Image: r.Image, Layer: r.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Destroy(context.WithoutCancel(t.Context())) }()
	conn, err := pod.Dial(t.Context(), m, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Boot(t.Context(), pod.Boot{ExecToken: strings.Repeat("0", 64)}, func(pod.Step) {}); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := conn.RunCommand(t.Context(), command, time.Minute, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// committed commits a changed install command to the repository.
func committed(git *gittest.Server, name, install string) {
	git.Commit(name, "main", "Install", map[string]string{".aloft/environment.json": fmt.Sprintf(`{"install": %q}`, install)})
}

// TestServerIsKilledInEveryStep kills the server in every step of a build. The
// next server must end the build, leave no partial files, start machines only
// from complete layers, and build again.
func TestServerIsKilledInEveryStep(t *testing.T) {
	git, dir := gittest.New(t), t.TempDir()
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"install": "echo first > ~/made"}`})
	s := opened(t, dir)
	active, made := s.built(t, url, environment.Succeeded), "first"
	for _, step := range []string{"recorded", "made", "booted", "installed", "stopped", "frozen", "cleared", "activated"} {
		t.Run(step, func(t *testing.T) {
			s.shut(t)
			committed(git, "app", "echo "+step+" > ~/made")
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{dir, url, step}, "|"))
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != -1 {
				t.Fatalf("the server was not killed: %v: %s", err, out)
			}
			if *s, err = open(dir); err != nil {
				t.Fatal(err)
			}
			<-s.builder.tidied
			s.agree(t)
			now, err := s.store.ActiveBuild(t.Context(), active.EnvironmentID)
			if err != nil || (now.ID == active.ID) != (step != "activated") {
				t.Errorf("the active build is %s, %v; before it was %s", now.ID, err, active.ID)
			}
			if step == "activated" {
				made = step
			}
			if got := s.on(t, now, "cat ~/made"); got != made+"\n" {
				t.Errorf("a machine that starts from the active build has %q", got)
			}
			active = s.built(t, url, environment.Succeeded)
			if step == "activated" {
				active = s.built(t, url, environment.Succeeded)
			}
			if made = step; s.on(t, active, "cat ~/made") != made+"\n" {
				t.Error("a machine of the next build has not what install made")
			}
			s.agree(t)
		})
	}
}

// TestMachineIsKilledInABuild checks that a build ends when its machine dies or
// the disk is full. Nothing must be left behind, and the active build must stay
// active.
func TestMachineIsKilledInABuild(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"install": "echo first > ~/made"}`})
	s := opened(t, t.TempDir())
	active := s.built(t, url, environment.Succeeded)
	for _, c := range []struct {
		step, words string
		failure     environment.Failure
		end         func(id string) error
	}{
		{"made", "", environment.TerminalFailure, s.kill},
		{"booted", "", environment.TerminalFailure, s.kill},
		{"installed", "", "", s.kill}, // all files to be saved are already on the disk
		{"booted", "", environment.TerminalFailure, s.killInit},
		{"installed", "", "", s.killInit},
		{"stopped", "", "", s.killInit}, // no process runs when the disk is frozen
		{"booted", "the disk is full", environment.InstallFailed, func(id string) error {
			ours, err := s.builder.Stop(t.Context(), id, fault.Exhausted("the disk is full"))
			if !ours {
				return errors.New("no build has the machine")
			}
			return err
		}},
	} {
		committed(git, "app", "echo "+c.step+" > ~/made; sync")
		s.builder.step = func(step string) {
			if step != c.step {
				return
			}
			ids, err := s.runtime.List(t.Context())
			if err != nil || len(ids) != 1 {
				t.Fatal(ids, err)
			}
			if err := c.end(ids[0]); err != nil {
				t.Error(err)
			}
		}
		want := environment.Failed
		if c.failure == "" {
			want = environment.Succeeded
		}
		r := s.built(t, url, want)
		if r.FailureType != c.failure || !strings.Contains(r.Message, c.words) {
			t.Errorf("%s: the build is %+v", c.step, r)
		}
		s.agree(t)
		if want == environment.Succeeded {
			active = r
		}
		if now, err := s.store.ActiveBuild(t.Context(), r.EnvironmentID); err != nil || now.ID != active.ID {
			t.Errorf("%s: the active build is %s, %v; want %s", c.step, now.ID, err, active.ID)
		}
	}
	s.builder.step = func(string) {}
	if got := s.on(t, active, "cat ~/made"); got != "stopped\n" {
		t.Errorf("a machine of the build has %q", got)
	}
	// While install runs, kill either PID 1 or every other process in the
	// machine.
	for install, failure := range map[string]environment.Failure{
		"echo half > ~/made; sync; echo it runs; sleep 600":       environment.TerminalFailure,
		"echo half > ~/made; sync; sh -c 'kill -9 -1'; sleep 600": environment.InstallFailed,
	} {
		committed(git, "app", install)
		p, err := s.builder.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		var once sync.Once
		r, err := s.builder.Ensure(t.Context(), p, environment.Manual, func(news string) {
			if news == "it runs" {
				once.Do(func() {
					ids, err := s.runtime.List(t.Context())
					if err != nil || len(ids) != 1 {
						t.Error(ids, err)
						return
					}
					if err := s.killInit(ids[0]); err != nil {
						t.Error(err)
					}
				})
			}
		})
		if err != nil || r.Status != environment.Failed || r.FailureType != failure || r.Message == "" || strings.Contains(r.Message, "ended after") {
			t.Errorf("%s: the build is %+v, %v", install, r, err)
		}
		if err := s.builder.destroy(t.Context(), r.MachineID); err != nil { // the failed build's machine is kept for inspection
			t.Error(err)
		}
		s.agree(t)
		if now, err := s.store.ActiveBuild(t.Context(), active.EnvironmentID); err != nil || now.ID != active.ID {
			t.Errorf("%s: the active build is %s, %v; want %s", install, now.ID, err, active.ID)
		}
	}
	if got := s.on(t, active, "cat ~/made"); got != "stopped\n" {
		t.Errorf("a machine of the active build has %q", got)
	}
	// If the disk is already full, no machine is created.
	s.builder.Room = func() error { return fault.Exhausted("the disk is nearly full").Named("disk_full") }
	committed(git, "app", "true")
	if r, err := s.build(t.Context(), url); fault.Of(err).Code != "disk_full" {
		t.Errorf("on a full disk: %+v, %v", r, err)
	}
	s.builder.Room = nil
	s.agree(t)
}

// kill kills every process in a machine.
func (s *site) kill(id string) error {
	m, err := s.runtime.Open(context.Background(), id)
	if err != nil {
		return err
	}
	return m.(machine.Snapshotter).Stop(context.Background())
}

// killInit kills a machine's PID 1 from outside, which ends the machine. It
// does nothing if the machine has already ended.
func (s *site) killInit(id string) error {
	data, err := os.ReadFile(filepath.Join(s.dir, "machines", "machines", id, "init.json"))
	if err != nil {
		return err
	}
	var init struct{ PID int }
	if err := json.Unmarshal(data, &init); err != nil {
		return err
	}
	p, err := os.FindProcess(init.PID)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if err := p.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// TestNothingHasChanged checks that an unchanged environment is not built
// again, and that concurrent requests share one build.
func TestNothingHasChanged(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"install": "date +%N > ~/made"}`})
	s := opened(t, t.TempDir())
	records := make(chan environment.Record)
	for range 3 {
		go func() {
			r, err := s.build(t.Context(), url)
			if err != nil {
				t.Error(err)
			}
			records <- r
		}()
	}
	first := <-records
	for range 2 {
		if r := <-records; r.ID != first.ID || r.Status != environment.Succeeded {
			t.Errorf("one has %+v, another %+v", first, r)
		}
	}
	git.Commit("app", "main", "More", map[string]string{"main.go": "package main"})
	if again := s.built(t, url, environment.Succeeded); again.ID != first.ID {
		t.Errorf("after a change of nothing that install reads: %+v", again)
	}
	list, err := s.store.ListBuilds(t.Context(), first.EnvironmentID, store.Page{Limit: 10})
	if err != nil || len(list) == 0 || list[0].Status != environment.Skipped || list[len(list)-1].ID != first.ID {
		t.Errorf("its builds are %+v, %v", list, err)
	}
	for _, r := range list[:len(list)-1] {
		if r.Status != environment.Skipped {
			t.Errorf("a build that nobody needs: %+v", r)
		}
	}
	// If the layer, or the image below the layer, is removed, the server builds
	// again.
	if err := s.runtime.Layers().Delete(first.ID); err != nil {
		t.Fatal(err)
	}
	if r := s.built(t, url, environment.Succeeded); r.ID == first.ID {
		t.Error("a build without its layer is taken for one")
	}
}

// TestImageIsGone checks that if the image below a base is unavailable, the
// next base is used, with a note. The base is a build, the image itself, or a
// snapshot.
func TestImageIsGone(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{".aloft/environment.json": `{"image": "gone.example/app:1", "install": "echo made > ~/made"}`})
	s := opened(t, t.TempDir())
	gone := fault.NotFound("no such image")
	have := s.builder.HaveImage
	s.builder.HaveImage = func(ctx context.Context, name string) error {
		if strings.HasPrefix(name, "gone.example/") {
			return gone
		}
		return have(ctx, name)
	}
	prepare := func() Base {
		t.Helper()
		p, err := s.builder.Plan(t.Context(), agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: url}}}}, "")
		if err != nil {
			t.Fatal(err)
		}
		base, err := s.builder.Prepare(t.Context(), p, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		return base
	}
	if base := prepare(); base.Image != "host" || !base.Install || !strings.Contains(strings.Join(base.Notes, "\n"), "The image gone.example/app:1 is unavailable: no such image") {
		t.Errorf("without its image: %+v", base)
	}
	committed(git, "app", "echo made > ~/made")
	first := prepare()
	if first.Layer == "" || first.Install {
		t.Fatalf("the default image: %+v", first)
	}
	s.builder.HaveImage = func(context.Context, string) error { return gone }
	if base := prepare(); base.Layer == "" || base.Layer == first.Layer {
		t.Errorf("a build whose image is gone is a base: %+v", base)
	}
	saved := layer.NewID(layer.Snapshot)
	upper := filepath.Join(t.TempDir(), "upper")
	if err := os.Mkdir(upper, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.runtime.Layers().Freeze(layer.Layer{ID: saved, Image: "gone.example/app:1", Kept: true}, upper, ""); err != nil {
		t.Fatal(err)
	}
	if err := s.store.AddSnapshot(t.Context(), environment.Snapshot{ID: saved, Repo: secret.Repo(url), CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	git.Commit("app", "main", "Start from it", map[string]string{".aloft/environment.json": fmt.Sprintf(`{"snapshot": %q}`, saved)})
	if base := prepare(); base.Layer != "" || base.Image != "host" || !strings.Contains(strings.Join(base.Notes, "\n"), saved+" is based on the image gone.example/app:1, which is unavailable") {
		t.Errorf("a snapshot whose image is gone: %+v", base)
	}
}

// TestSeveralRepositoriesAreOneBuild checks builds of several repositories. All
// are cloned side by side, install runs in the first, and a changed input of
// install in any of them causes a new build.
func TestSeveralRepositoriesAreOneBuild(t *testing.T) {
	git := gittest.New(t)
	app := git.Repo("app", map[string]string{".aloft/environment.json": `{"install": "cat name ../lib/name /workspace/lib/deps.txt > ~/made"}`, "name": "app\n"})
	lib := git.Repo("lib", map[string]string{"name": "lib\n", "deps.txt": "one\n", "other": "1"})
	s := opened(t, t.TempDir())
	prepare := func(refs ...string) Base {
		t.Helper()
		a := agent.Agent{Options: agent.Options{Repos: []agent.Repo{{URL: app}, {URL: lib, StartingRef: strings.Join(refs, "")}}}}
		p, err := s.builder.Plan(t.Context(), a, "")
		if err != nil {
			t.Fatal(err)
		}
		base, err := s.builder.Prepare(t.Context(), p, func(string) {})
		if err != nil || len(base.Notes) > 0 {
			t.Fatal(base, err)
		}
		return base
	}
	first := prepare()
	r, err := s.store.Build(t.Context(), first.Layer)
	if err != nil || first.Install || len(r.Commits) != 2 || r.Commits[1] != (environment.Commit{URL: lib, Commit: git.Branch("lib", "main")}) {
		t.Fatalf("the base is %+v, of the build %+v, %v", first, r, err)
	}
	if got := s.on(t, r, "cat ~/made; cd /workspace; ls; git -C lib log --format=%s"); !strings.HasPrefix(got, "app\nlib\none\napp\nlib\n") {
		t.Errorf("a machine of the build has %q", got)
	}
	git.Commit("lib", "same", "More", map[string]string{"other": "2"})
	if b := prepare("same"); b.Layer != first.Layer || b.Install {
		t.Errorf("a change of nothing that install reads: %+v", b)
	}
	git.Commit("lib", "deps", "Depend", map[string]string{"deps.txt": "two\n"})
	if b := prepare("deps"); b.Layer != first.Layer || !b.Install {
		t.Errorf("a change of what install reads in the second: %+v", b)
	}
	// The first repository alone has its own environment, and does not use the
	// build of both repositories.
	alone, err := s.build(t.Context(), app)
	if err != nil || alone.Status != environment.Failed || alone.EnvironmentID == r.EnvironmentID {
		t.Errorf("the first alone: %+v, %v", alone, err)
	}
	if b := prepare(); b.Layer != first.Layer {
		t.Errorf("both again: %+v", b)
	}
}

// TestBuildsOfOneSavedEnvironmentAtOnce builds one saved environment for two
// repositories concurrently. Each repository must get its own build.
func TestBuildsOfOneSavedEnvironmentAtOnce(t *testing.T) {
	git := gittest.New(t)
	urls := []string{git.Repo("one", map[string]string{"one": ""}), git.Repo("two", map[string]string{"two": ""})}
	s := opened(t, t.TempDir())
	now := time.Now()
	if err := s.store.PutEnvironment(t.Context(), environment.Saved{
		ID: "env-1", Name: "both", Repos: urls, Team: true, Text: `{"install": "ls > ~/made"}`, VersionID: "v-1", CreatedAt: now, UpdatedAt: now,
	}); err != nil {
		t.Fatal(err)
	}
	records := make([]environment.Record, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			var err error
			if records[i], err = s.build(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i, r := range records {
		if r.Status != environment.Succeeded || len(r.Commits) != 1 || r.Commits[0].URL != urls[i] {
			t.Errorf("the build for %s is %+v", urls[i], r)
		}
	}
}
