package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

const environmentScript = `
scripts:
  - turns:
      - text: I look at what is here.
        calls:
          - {tool: Shell, args: {command: "echo user=$(id -un) app=$APP_ENV; cat /tmp/started installed; git status --porcelain; tmux list-sessions -F '#{session_name}'"}}
      - text: Done.
`

// The server applies a repository's environment.json in the machine: install,
// start and terminals, with the configured user and variables. It reports each
// failure, even if several commands fail.
func TestEnvironmentOfTheRepository(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{
		".gitignore": "installed\n",
		".cursor/environment.json": `{
  // as found in the wild
  "user": "ubuntu",
  "env": {"APP_ENV": "test"},
  "install": "echo \"install by $(id -un) in $PWD as $APP_ENV\" | tee installed\necho more >&2",
  "start": "echo up > /tmp/started; (sleep 600 &) ; echo noise",
  "terminals": [{"name": "Run Next.js", "command": "echo serving; sleep 600", "description": "serves"}, [{"command": "sleep 600"}],],
  "instal": "x",
}`,
	})
	a := start(t, scripted(t, environmentScript))
	events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
	for _, want := range []string{
		"environment.json at ", `warning: instal: unknown key`,
		`"layer":"bld-`,
		`"name":"start","state":"done"`, `"name":"terminal Run-Next-js","state":"done"`, `"name":"terminal terminal-2","state":"done"`,
		`user=ubuntu app=test`, `up\ninstall by ubuntu in /workspace as test\n`, `Run-Next-js\nterminal-2`, `- Run-Next-js: serves`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal does not have %s", want)
		}
	}
	if strings.Contains(events, "?? installed") {
		t.Error("what install made is not ignored")
	}
	if t.Failed() {
		t.Log(events)
	}

	git.Commit("app", "broken", "Break it", map[string]string{
		".cursor/environment.json": `{"user": "nobody-there", "image": 5, "install": "echo no network; exit 7", "start": "echo half; false", "terminals": [{"command": "sleep 600"}]}`,
	})
	events = a.events(a.finish(a.create("", "Look", object{"repos": []object{{"url": url, "startingRef": "broken"}}})).AgentID)
	for _, want := range []string{
		`"name":"install","state":"failed"`, `The environment's install ended with status 7\nno network`,
		`"name":"start","state":"failed"`, `The environment's start ended with status 1\nhalf`,
		`"name":"terminal terminal-1","state":"done"`, `the machine has no user nobody-there`, `error: image: this is the number 5`,
		`The environment's file has errors`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal of the broken one does not have %s", want)
		}
	}
	if t.Failed() {
		t.Log(events)
	}
}

const buildScript = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat installed; git rev-parse HEAD; git branch --show-current; git status --porcelain; pgrep -x sleep; cat /etc/made-by-install; echo; ls / | wc -l"}}
      - text: Done.
`

// install runs once, in a build. Every machine gets the files that install has
// written, but not its background processes. A change of install's inputs
// causes a new build. A failing build is reported, leaves its machine for
// inspection, and never replaces the active build.
func TestEnvironmentIsBuiltOnce(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{
		".gitignore":               "installed\n",
		"package-lock.json":        "1",
		".cursor/environment.json": `{"install": "echo install $(date +%s%N) of $(cat package-lock.json) >> installed\nsudo -n touch /etc/made-by-install || true\n(sleep 600 &)\nsetsid sleep 600 &\nread x && echo someone types; true"}`,
	})
	a := start(t, scripted(t, buildScript))
	run := func(ref string) string {
		t.Helper()
		repo := object{"url": url}
		if ref != "" {
			repo["startingRef"] = ref
		}
		return a.events(a.finish(a.create("", "Look", object{"repos": []object{repo}})).AgentID)
	}
	layer := regexp.MustCompile(`"layer":"(bld-[0-9a-f-]+)"`)
	line := regexp.MustCompile(`install [0-9]+ of ([0-9])\\n`)
	built := func(events string) (id string, installs []string) {
		t.Helper()
		if m := layer.FindStringSubmatch(events); m != nil {
			id = m[1]
		}
		seen := map[string]bool{}
		for _, l := range line.FindAllString(events, -1) {
			if !seen[l] {
				seen[l] = true
				installs = append(installs, l)
			}
		}
		return id, installs
	}

	// Two agents that start at the same time share one build.
	both := make(chan string, 2)
	for range 2 {
		r := a.create(url, "Look", nil)
		go func() {
			events := "" // set only if the run fails
			defer func() { both <- events }()
			events = a.events(a.wait(r).AgentID)
		}()
	}
	first, installs := built(<-both)
	second, same := built(<-both)
	if first == "" || first != second || len(installs) != 1 || len(same) != 1 || installs[0] != same[0] {
		t.Fatalf("builds %q %q, installs %q %q", first, second, installs, same)
	}
	head := git.Commit("app", "main", "More", map[string]string{"main.go": "package main"})
	events := run("")
	if id, again := built(events); id != first || len(again) != 1 || again[0] != installs[0] || !strings.Contains(events, head) || strings.Contains(events, `"name":"install"`) {
		t.Errorf("after a change of nothing that install reads: build %q, installs %q\n%s", id, again, events)
	}
	// After a change of install's inputs, the new build starts from the last
	// build and runs install again.
	git.Commit("app", "lock", "Lock", map[string]string{"package-lock.json": "2"})
	events = run("lock")
	if id, again := built(events); id != first || len(again) != 2 || !strings.Contains(events, `"name":"install","state":"done"`) {
		t.Errorf("after a change of the lock file: build %q, installs %q\n%s", id, again, events)
	}

	// A branch has its own environment.
	git.Commit("app", "other", "Other", map[string]string{".cursor/environment.json": `{"install": "echo other > installed"}`})
	if events = run("other"); !strings.Contains(events, "differs from the default branch") || !strings.Contains(events, `other\n`) {
		t.Errorf("the branch's own environment:\n%s", events)
	}

	// A server that dies during a build leaves no partial build.
	git.Commit("app", "main", "Hang", map[string]string{".cursor/environment.json": `{"install": "echo hanging; sleep 600"}`})
	r := a.create(url, "Look", nil)
	eventually(t, "install hangs", func() bool { return strings.Contains(a.events(r.AgentID), `"detail":"hanging"`) })
	a.Kill()
	git.Commit("app", "main", "Fail", map[string]string{".cursor/environment.json": `{"install": "echo before it fails; exit 9"}`})
	a.Start()
	events = a.events(a.finish(r).AgentID)
	for _, want := range []string{"could not be built (bld-", `install ended with status 9\nbefore it fails`, "The machine starts from the previous build, " + first} {
		if !strings.Contains(events, want) {
			t.Errorf("the journal does not have %s", want)
		}
	}
	if t.Failed() {
		t.Log(events)
	}
	failed := func() []string {
		found, err := filepath.Glob(filepath.Join(a.Data, "machines", "machines", "env-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if w := failed(); len(w) != 1 {
		t.Errorf("failed machines: %q; want that of the build that failed", w)
	}
	// A person can enter the failed build's machine, more than once.
	broken := regexp.MustCompile(`could not be built \((bld-[0-9a-f-]+)\)`).FindStringSubmatch(events)[1]
	for _, want := range []string{"/workspace\n1\n", "/workspace\n1\nagain\n"} {
		if got := a.output("env", "shell", broken, "--", "sh", "-c", "pwd; cat package-lock.json; echo; cat visited 2>/dev/null; echo again > visited"); got != want {
			t.Errorf("in the failed machine: %q, want %q", got, want)
		}
	}
	eventually(t, "the failed machine is stopped", func() bool { return !runs(t, failed()[0]) })
	if got := a.output("env", "logs", url); !strings.Contains(got, "# install\nbefore it fails\n# install ended with status 9\n") {
		t.Errorf("the log of the repository's newest build: %s", got)
	}
	a.prints(t, broken, "env", "builds", url)
	if out, err := a.command(t.Context(), "env", "shell", first, "--", "true").CombinedOutput(); err == nil || !strings.Contains(string(out), "no failed machine to enter") {
		t.Errorf("a shell in a build that succeeded: %v, %s", err, out)
	}
	git.Commit("app", "main", "Mend", map[string]string{".cursor/environment.json": `{"install": "echo mended > installed"}`})
	events = run("")
	if id, _ := built(events); id == "" || id == first || !strings.Contains(events, `mended\n`) {
		t.Errorf("after it was mended: build %q\n%s", id, events)
	}
	eventually(t, "the failed machine is gone", func() bool { return len(failed()) == 0 })
	logs, err := filepath.Glob(filepath.Join(a.Data, "builds", "*.log"))
	if err != nil || len(logs) != 4 {
		t.Errorf("logs: %q, %v", logs, err)
	}
}

// No fault of install ends more than its build, which ends with an error.
func TestEnvironmentAtItsWorst(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	patient := start(t, scripted(t, buildScript)+"environments: {stale_after: 0s}\n")
	hasty := start(t, scripted(t, buildScript)+"environments: {install_limit: 6s, start_limit: 5s, stale_after: 0s}\n")
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"hangs":    {`{"install": "echo begun; sleep 600"}`, []string{"install timed out after 6s\\nbegun"}},
		"daemon":   {`{"install": "echo begun; setsid sh -c 'trap \"\" TERM; sleep 600' & exit 0"}`, []string{`"layer":"bld-`}},
		"prints":   {`{"install": "yes no end of it | head -c 60000000; echo; echo the last line; exit 4"}`, []string{"install ended with status 4", "the last line"}},
		"fills":    {`{"install": "head -c 1G /dev/zero > /dev/shm/x; echo full; exit 5"}`, []string{"install ended with status 5"}},
		"types":    {`{"install": "read answer || { echo nobody types; exit 6; }"}`, []string{"install ended with status 6\\nnobody types"}},
		"sudo":     {`{"install": "sudo -n true || { echo no sudo; exit 0; }; echo root > /tmp/x"}`, []string{`"layer":"bld-`}},
		"stuck":    {`{"install": "true", "start": "echo waits; sleep 600", "terminals": [{"command": "sleep 600"}]}`, []string{"start was ended after 5s: start must return", "waits", `"name":"terminal terminal-1","state":"done"`}},
		"snapshot": {`{"install": "true", "snapshot": "snapshot-20260101-6f9619ff-8b86-d011-b42d-00cf4fc964ff"}`, []string{"does not exist, has expired", `"layer":"bld-`}},
		"host":     {`{"install": "true", "image": "rootfs:/"}`, []string{"which a repository must not refer to", `"layer":"bld-`}},
	} {
		url := git.Repo(name, map[string]string{".cursor/environment.json": c.file})
		a := patient
		if name == "hangs" || name == "stuck" {
			a = hasty
		}
		events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
		for _, want := range c.want {
			if !strings.Contains(events, want) {
				t.Errorf("%s: the journal does not have %s", name, want)
				t.Log(events)
			}
		}
	}
	// The machines of failed builds are removed by the next successful build of
	// the same environment.
	for a, names := range map[*aloft][]string{hasty: {"hangs"}, patient: {"prints", "fills", "types"}} {
		for _, name := range names {
			git.Commit(name, "main", "Mend", map[string]string{".cursor/environment.json": `{"install": "true"}`})
			a.finish(a.create(git.URL+"/"+name+".git", "Look", nil))
		}
		eventually(t, "the failed machines are gone", func() bool {
			left, err := filepath.Glob(filepath.Join(a.Data, "machines", "machines", "env-*"))
			return err == nil && len(left) == 0
		})
	}
	logs, err := filepath.Glob(filepath.Join(patient.Data, "builds", "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, log := range logs {
		if info, err := os.Stat(log); err != nil || info.Size() > 20<<20 {
			t.Errorf("%s has %d bytes, %v", log, info.Size(), err)
		}
	}
}

// An agent that names an environment gets the build, the secrets and the start
// command of that environment, not those of the repository's file.
func TestNamedEnvironment(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("app", map[string]string{
		".gitignore": "installed\nstarted\n", ".cursor/environment.json": `{"install": "echo by the file > installed"}`,
	})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "cat installed started; test ${#NAMED_TOKEN} = 22 && echo it has the secret"}}
      - text: Done.
`))
	status, body := a.do("POST", "/v1/environments", object{
		"owner": "personal", "name": "fast", "repos": []object{{"url": url}},
		"environmentJson": `{"install": "test ${#NAMED_TOKEN} = 22 && echo by name > installed", "start": "echo started by name > started"}`,
	})
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(body), &made); status != 201 || err != nil {
		t.Fatal(status, body, err)
	}
	if status, body := a.do("PUT", "/v1/environments/"+made.ID+"/secrets/NAMED_TOKEN", object{"value": "token-of-22-characters"}); status != 200 {
		t.Fatal(status, body)
	}
	for _, more := range []object{{"env": object{"type": "cloud", "name": "fast"}}, {}} {
		named := more["env"] != nil
		events := a.events(a.finish(a.create(url, "Look", more)).AgentID)
		for text, want := range map[string]bool{"by name\\nstarted by name\\nit has the secret": named, "by the file": !named, made.ID: named} {
			if strings.Contains(events, text) != want {
				t.Errorf("named %v: the journal has %q: %v\n%s", named, text, !want, events)
			}
		}
	}
	var builds struct{ Items []struct{ Status string } }
	a.get("/v1/environments/"+made.ID+"/builds", &builds)
	if len(builds.Items) != 1 || builds.Items[0].Status != "SUCCEEDED" {
		t.Errorf("its builds are %+v", builds)
	}
	if status, body := a.do("POST", "/v1/agents", object{"prompt": object{"text": "Look"}, "env": object{"type": "cloud", "name": "slow"}}); status != 400 || !strings.Contains(body, "environment_not_found") {
		t.Errorf("a name that nobody has: %d %s", status, body)
	}
}

// A saved environment applies to its repository if that repository has no file.
// It applies to no other repository, so no machine contains files that another
// repository has built.
func TestSavedEnvironment(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	urls := []string{git.Repo("one", map[string]string{"one": "1"}), git.Repo("two", map[string]string{"two": "2"})}
	a := start(t, scripted(t, buildScript))
	status, body := a.do("POST", "/v1/environments", object{
		"owner": "personal", "name": "both", "repos": []object{{"url": urls[0]}, {"url": strings.TrimSuffix(urls[1], ".git")}},
		"environmentJson": `{"install": "ls -I installed > installed; echo installed >> .git/info/exclude"}`,
	})
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(body), &made); status != 201 || err != nil {
		t.Fatal(status, body, err)
	}
	for i, url := range []string{urls[0], urls[1], urls[0]} {
		events := a.events(a.finish(a.create(url, "Look", nil)).AgentID)
		if want := []string{`"stdout":"one\n`, `"stdout":"two\n`}[i%2]; !strings.Contains(events, want) || !strings.Contains(events, `"layer":"bld-`) || !strings.Contains(events, made.ID) {
			t.Errorf("%d: the journal does not have %s, a layer and %s:\n%s", i, want, made.ID, events)
		}
	}
	var builds struct{ Items []struct{ Status string } }
	a.get("/v1/environments/"+made.ID+"/builds", &builds)
	if len(builds.Items) != 3 || builds.Items[0].Status != "SKIPPED" || builds.Items[1].Status != "SUCCEEDED" { // one active build per repository
		t.Errorf("builds are %+v", builds)
	}
	// Builds on demand: an unchanged environment is skipped, a build can be
	// cancelled, and its log can be read while it runs.
	builds.Items = nil
	path := "/v1/environments/" + made.ID
	if status, body := a.do("POST", path+"/builds", object{"repo": urls[0]}); status != 200 || !strings.Contains(body, `"status":"SUCCEEDED"`) {
		t.Errorf("a build on demand: %d %s", status, body)
	}
	if status, body := a.do("PATCH", path, object{"environmentJson": `{"install": "echo it hangs; sleep 600"}`}); status != 204 {
		t.Fatal(status, body)
	}
	ended := make(chan string, 1)
	go func() {
		body := ""
		defer func() { ended <- body }() // also if the test fails
		_, body = a.do("POST", path+"/builds", object{})
	}()
	var open struct {
		Items []struct{ ID, Status, Trigger string }
	}
	eventually(t, "install hangs", func() bool {
		a.get(path+"/builds", &open)
		if open.Items[0].Status != "IN_PROGRESS" {
			return false
		}
		log, err := os.ReadFile(filepath.Join(a.Data, "builds", open.Items[0].ID+".log"))
		return err == nil && strings.Contains(string(log), "it hangs")
	})
	build := path + "/builds/" + open.Items[0].ID
	if status, body := a.do("POST", build+"/cancel", nil); status != 204 {
		t.Fatal(status, body)
	}
	if body := <-ended; open.Items[0].Trigger != "MANUAL" || !strings.Contains(body, `"news":`) || !strings.Contains(body, `"status":"CANCELLED"`) {
		t.Errorf("the cancelled build, %+v: %s", open.Items[0], body)
	}
	if status, body := a.do("GET", build+"/log", nil); status != 200 || !strings.Contains(body, "# install\nit hangs\n") {
		t.Errorf("its log: %d %s", status, body)
	}
	if status, body := a.do("POST", build+"/cancel", nil); status != 409 || !strings.Contains(body, "build_not_running") {
		t.Errorf("cancelled again: %d %s", status, body)
	}
	for command, want := range map[string]string{"list": "both", "show " + made.ID: "it hangs", "builds " + made.ID: "CANCELLED", "history " + made.ID: "ls -I installed"} {
		a.prints(t, want, append([]string{"env"}, strings.Fields(command)...)...)
	}

	// The command line does the same: it shows the log as it grows, and can
	// restore an earlier version.
	cmd := a.command(t.Context(), "env", "logs", "-f", made.ID)
	fresh := a.command(t.Context(), "env", "build", made.ID)
	if err := fresh.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another build hangs", func() bool {
		open.Items = nil
		a.get(path+"/builds", &open)
		return open.Items[0].Status == "IN_PROGRESS" && strings.Contains(a.output("env", "logs", open.Items[0].ID), "it hangs")
	})
	live, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for lines := bufio.NewScanner(live); !strings.Contains(log.String(), "it hangs") && lines.Scan(); {
		log.WriteString(lines.Text() + "\n")
	}
	a.prints(t, "Cancelled bld-", "env", "cancel", made.ID)
	if _, err := io.Copy(&log, live); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "# install\nit hangs\n") {
		t.Errorf("the log as it grew: %v, %s", err, &log)
	}
	if err := fresh.Wait(); err == nil || fresh.ProcessState.ExitCode() != 1 {
		t.Errorf("a build that is cancelled meanwhile: %v", err)
	}
	var history struct {
		Items []struct{ VersionID string }
	}
	a.get(path+"/history", &history)
	a.prints(t, "Restored env-", "env", "history", made.ID, history.Items[1].VersionID, "--restore")
	a.prints(t, "Machines now start from it.", "env", "build", made.ID)
	file := filepath.Join(t.TempDir(), "environment.json")
	if err := os.WriteFile(file, []byte(`{"install": "true", // nothing
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a.prints(t, "Changed env-", "env", "update", made.ID, file, "--name", "two")
	a.prints(t, "// nothing", "env", "show", made.ID)
	a.prints(t, "Saved env-", "env", "create", "--name", "three", "--repo", urls[1], file)
	a.prints(t, "Deleted env-", "env", "delete", made.ID)
	if logs, err := filepath.Glob(filepath.Join(a.Data, "builds", "*.log")); err != nil || len(logs) != 0 {
		t.Errorf("of an environment that is deleted there is %q, %v", logs, err)
	}
}

// runs reports whether the machine in dir has a running process.
func runs(t *testing.T, dir string) bool {
	t.Helper()
	cmd := exec.Command("pgrep", "-f", filepath.Base(dir))
	out, err := cmd.Output()
	return err == nil && len(out) > 0
}

// prints runs bin/aloft with the arguments, and fails unless the output
// contains want.
func (a *aloft) prints(t *testing.T, want string, args ...string) {
	t.Helper()
	cmd := exec.Command(binary(t), args...)
	cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("aloft %s: %v; want %q in\n%s", strings.Join(args, " "), err, want, out)
	}
}

// An environment can restrict the network of its machines, but not extend it.
func TestEnvironmentNarrowsTheNetwork(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("narrow", map[string]string{
		".cursor/environment.json": `{"egressMode": "network_settings_only", "egressAllowlist": ["ok.example"]}`,
	})
	a := start(t, scripted(t, calls("getent hosts other.example; getent hosts denied.example; true")))
	r := a.finish(a.create(url, "Look around", nil))
	var got struct {
		Ended []struct {
			Domain  string
			Allowed bool
		}
	}
	eventually(t, "both names are logged", func() bool {
		a.get("/v1/agents/"+r.AgentID+"/connections", &got)
		return len(got.Ended) >= 2
	})
	for _, c := range got.Ended {
		if c.Allowed { // the server's own policy would allow every connection
			t.Errorf("%s is looked up", c.Domain)
		}
	}
}
