package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/need"
)

func TestFollowUpGoesOnInTheSameMachine(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - match: first
    turns:
      - calls:
          - {tool: Shell, args: {command: "export MARK=still-here; mkdir -p sub; cd sub; echo one > one.txt"}}
      - text: First done.
  - match: second
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo $MARK > two.txt; pwd"}}
      - text: Second done.
`))
	first := a.finish(a.create(url, "The first task", nil))
	second := a.finish(a.followUp(first, "The second task"))
	branch := pushed(t, second)
	if branch != pushed(t, first) {
		t.Errorf("branches %s and %s", pushed(t, first), branch)
	}
	if got := gittest.Git(t, git.Path("r"), "show", branch+":sub/two.txt"); got != "still-here" {
		t.Errorf("the shell of the second run says %q", got)
	}
	if n := strings.Count(a.events(first.AgentID), `"machine.made"`); n != 1 {
		t.Errorf("%d machines were made", n)
	}
	var usage struct {
		Runs []struct{ ID string }
	}
	a.get("/v1/agents/"+first.AgentID+"/usage", &usage)
	if len(usage.Runs) != 2 {
		t.Errorf("usage of %d runs", len(usage.Runs))
	}
	var diff struct{ Diff string }
	a.get("/v1/agents/"+first.AgentID+"/diff", &diff)
	if !strings.Contains(diff.Diff, "+still-here") {
		t.Errorf("the diff is %q", diff.Diff)
	}
}

func TestTwoPromptsAtOnce(t *testing.T) {
	t.Parallel()
	a := start(t, scripted(t, waits))
	r := a.create("", "One", nil)
	status, body := a.do("POST", "/v1/agents/"+r.AgentID+"/runs", object{"prompt": object{"text": "Two"}})
	if status != http.StatusConflict || !strings.Contains(body, "agent_busy") {
		t.Errorf("got %d %s", status, body)
	}
	a.letGo(r)
	a.finish(r)
}

// A run ends when a person cancels it or when it reaches a limit. Its running
// calls end too, its work is kept, and the next run continues.
func TestCancelAndLimits(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	a := start(t, scripted(t, `
scripts:
  - match: wait
    turns:
      - calls: [{tool: Shell, args: {command: "echo begun; sleep 300", timeout: 600000}}]
  - match: by and by
    turns:
      - calls: [{tool: Shell, args: {command: "echo kept > kept.txt"}}]
      - calls: [{tool: Shell, args: {command: "sleep 301", timeout: 600000}}]
      - text: Done.
  - turns:
      - calls: [{tool: Shell, args: {command: "echo after"}}]
      - text: Done.
`))
	r := a.create("", "Please wait", nil)
	begun := output("begun")
	a.stream(r, "", func(f frame) bool { return !begun(f, "") })
	eventually(t, "the command runs", func() bool { return len(processes(t, r.AgentID, "sleep\x00300")) > 0 })
	if status, body := a.do("POST", r.path()+"/cancel", nil); status != http.StatusOK {
		t.Fatalf("cancel: %d %s", status, body)
	}
	if r = a.wait(r); r.Status != "CANCELLED" {
		t.Errorf("the run is %s", r.Status)
	}
	eventually(t, "the command of the cancelled run has ended", func() bool { return len(processes(t, r.AgentID, "sleep\x00300")) == 0 })
	a.finish(a.followUp(r, "Go on"))

	r = a.wait(a.create(git.Repo("r", map[string]string{"README.md": "r\n"}), "Do it by and by", object{"limits": object{"turns": 1}}))
	if r.Status != "EXPIRED" || r.Error.Code != "limit_turns" {
		t.Errorf("the run is %s, %+v", r.Status, r.Error)
	}
	if tree := gittest.Git(t, git.Path("r"), "ls-tree", "--name-only", pushed(t, r)); tree != "README.md\nkept.txt" {
		t.Errorf("the branch has %q", tree)
	}
	limited := func(seconds int) run {
		t.Helper()
		status, body := a.do("POST", "/v1/agents/"+r.AgentID+"/runs", object{"prompt": object{"text": "Go on"}, "limits": object{"seconds": seconds}})
		var made struct{ Run run }
		if err := json.Unmarshal([]byte(body), &made); status != http.StatusCreated || err != nil {
			t.Fatalf("follow-up: %d %s", status, body)
		}
		return made.Run
	}
	next := limited(3)
	a.Kill() // no time for a graceful shutdown
	a.Start()
	if r = a.wait(next); r.Status != "EXPIRED" || r.Error.Code != "limit_time" {
		t.Errorf("the run is %s, %+v", r.Status, r.Error)
	}
	eventually(t, "the command of the run whose time was up has ended", func() bool { return len(processes(t, r.AgentID, "sleep\x00301")) == 0 })
}

// Fifty agents run at the same time on two cores. All finish, each with its own
// work.
func TestFiftyAgents(t *testing.T) {
	t.Parallel()
	const n = 50
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls: [{tool: Shell, args: {command: "echo '{{prompt}}' > mine.txt"}}]
      - text: Done.
`))
	runs := make([]run, n)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { runs[i] = a.create(url, fmt.Sprintf("Agent number %d", i), nil) })
	}
	all.Wait()
	for i, r := range runs {
		r = a.finish(r)
		if got, want := gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":mine.txt"), fmt.Sprintf("Agent number %d", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A machine contains neither the git server's token nor the model provider's
// key, and can reach only the git gateway.
func TestSecretsAreNotInTheMachine(t *testing.T) {
	t.Parallel()
	const token = "glpat-very-secret-token-0001"
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	other := git.Repo("other", map[string]string{"README.md": "other\n"})
	git.SetAuth("aloft", token)
	// The patterns are in a file that the search excludes. As arguments they
	// would match themselves.
	look := `
printf '%s%s\n%s%s\n' glpat-very- secret-token-0001 sk-test-01234 56789abcdef > /dev/shm/patterns
sudo sh -c 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null' | tr '\0' '\n' | grep -aFf /dev/shm/patterns && echo LEAK
sudo grep -raslFf /dev/shm/patterns /etc /run /home /workspace /var /tmp /root /exec-daemon /opt 2>/dev/null && echo LEAK
git ls-remote ` + other + ` >/dev/null 2>&1 && echo REACHED-OTHER
git commit -q --allow-empty -m x; git push origin HEAD:refs/heads/main 2>&1 | tail -3; git ls-remote origin main
timeout 5 bash -c 'exec 3<>/dev/tcp/` + strings.Replace(strings.TrimPrefix(git.URL, "http://"), ":", "/", 1) + `' 2>/dev/null && echo REACHED-HOST
ls /root /home 2>&1
echo looked`
	args, err := json.Marshal(map[string]any{"command": look, "timeout": 120000})
	if err != nil {
		t.Fatal(err)
	}
	server := modeltest.NewAnthropic(t,
		modeltest.Reply{Text: "I look.", Calls: []modeltest.Call{{Name: "Shell", Args: string(args)}}},
		modeltest.Reply{Text: "I have looked."})
	a := start(t, anthropic(server.URL, modeltest.Key, modeltest.Model)+
		fmt.Sprintf("git:\n  credentials:\n    - {url: %q, username: aloft, token: %s}\n", git.URL, token))
	main := git.Branch("r", "main")
	r := a.finish(a.create(url, "Look around", nil))
	var said string
	for _, line := range strings.Split(a.events(r.AgentID), "\n") {
		if strings.Contains(line, `"call.done"`) {
			said = line
		}
	}
	if !strings.Contains(said, "looked") {
		t.Fatalf("the command did not end: %s", said)
	}
	for _, bad := range []string{"LEAK", "REACHED-OTHER", "REACHED-HOST", token} {
		if strings.Contains(said, bad) {
			t.Errorf("%s: %s", bad, said)
		}
	}
	if git.Branch("r", "main") != main {
		t.Error("the agent has pushed to main")
	}
}

// A strict provider accepts the whole conversation: images, tool calls,
// results, and its own reasoning, unchanged.
func TestStrictProviders(t *testing.T) {
	t.Parallel()
	reply := []modeltest.Reply{
		{Thinking: "I should look first.", Redacted: "and think of more", Text: "Looking.", Calls: []modeltest.Call{{Name: "Shell", Args: `{"command":"echo a; echo b >&2; exit 3"}`}, {Name: "Read", Args: `{"path":"README.md"}`}}},
		{Thinking: "Now I write.", Calls: []modeltest.Call{{Name: "Nonsense", Args: `{}`}, {Name: "Write", Args: `{"path":"x.txt","contents":""}`}}},
		{Text: "Finished."},
		{Text: "And again."},
	}
	for name, c := range map[string]struct {
		server *modeltest.Server
		config string
	}{
		"Anthropic": {modeltest.NewAnthropic(t, reply...), "provider: anthropic, offers: {thinking: ['true'], effort: [low, high]}, params: {thinking: true}"},
		"Budget":    {modeltest.NewAnthropic(t, reply...), "provider: anthropic, offers: {thinking: ['true'], effort: [low, high]}, params: {thinking: true}, thinking_budget: 2000"},
		"Responses": {modeltest.NewResponses(t, reply...), "provider: openai, offers: {effort: [low, high]}"},
		"Chat":      {modeltest.NewChat(t, reply...), "provider: openai, api: chat, offers: {effort: [low, high]}"},
		"Google":    {modeltest.NewGoogle(t, reply...), "provider: google, offers: {effort: [low, high], thinking: ['true']}, params: {thinking: true}"},
	} {
		t.Run(name, func(t *testing.T) {
			git := gittest.New(t)
			url := git.Repo("r", map[string]string{"README.md": "r\n"})
			a := start(t, fmt.Sprintf("models:\n  - {id: m, %s, name: %s, base_url: %s, api_key: %s}\n", c.config, modeltest.Model, c.server.URL, modeltest.Key))
			picture := object{"data": base64.StdEncoding.EncodeToString(modeltest.Pixel.Data), "mimeType": modeltest.Pixel.MediaType}
			r := a.create(url, "", object{
				"prompt": object{"text": "Look at this", "images": []object{picture}},
				"model":  object{"id": "m", "params": []object{{"id": "effort", "value": "high"}}},
			})
			if r = a.finish(r); r.Result != "Finished." {
				t.Errorf("the result is %q", r.Result)
			}
			if r = a.finish(a.followUp(r, "Again")); r.Result != "And again." {
				t.Errorf("the result is %q", r.Result)
			}
			if !strings.Contains(string(c.server.Requests()[0].Body), base64.StdEncoding.EncodeToString(modeltest.Pixel.Data)) {
				t.Error("the picture did not reach the model")
			}
			for i, asked := range c.server.Requests() {
				if !strings.Contains(strings.ToLower(string(asked.Body)), `"high"`) {
					t.Errorf("request %d does not ask for the effort", i)
				}
			}
			if refused := c.server.Refusals(); len(refused) > 0 {
				t.Errorf("refused: %q", refused)
			}
			if events := a.events(r.AgentID); name != "Google" && !strings.Contains(events, "I should look first.") {
				t.Errorf("the reasoning is not in the journal:\n%s", events)
			}
		})
	}
}

// Programs in the machine ask the metadata socket to which agent they belong.
func TestMetadata(t *testing.T) {
	t.Parallel()
	need.Command(t, "curl")
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "for p in agent/id workspace/branch-name workspace/repo-url; do curl -s --unix-socket ${CURSOR_AGENT_SOCKET:-/run/cursor/api.sock} http://localhost/v1/meta-data/$p; echo; done > mine.txt"}}
      - text: Done.
`))
	r := a.finish(a.create(url, "Look who you are", nil))
	want := r.AgentID + "\n" + pushed(t, r) + "\n" + url
	if got := gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":mine.txt"); got != want {
		t.Errorf("the machine says %q, want %q", got, want)
	}
}

func TestFilesOnTheServersDisk(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, oneCall)+"git:\n  allow_file: ["+git.Dir+"]\n")
	r := a.finish(a.create("file://"+git.Path("r"), "x", nil))
	if got := gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":hello.txt"); got != "hello" {
		t.Errorf("hello.txt holds %q", got)
	}
}

func TestWorkOnCurrentBranch(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	git.Commit("r", "topic", "begun", map[string]string{"begun.txt": "x\n"})
	a := start(t, scripted(t, oneCall))
	r := a.finish(a.create("", "x", object{"workOnCurrentBranch": true, "repos": []object{{"url": url, "startingRef": "topic"}}}))
	if len(r.Git.Branches) != 1 || r.Git.Branches[0].Branch != "topic" {
		t.Fatalf("branches %+v", r.Git.Branches)
	}
	if got := gittest.Git(t, git.Path("r"), "show", "topic:hello.txt"); got != "hello" {
		t.Errorf("hello.txt holds %q", got)
	}
}

// The README's demo runs twice, the second time from a POSIX shell and in a
// folder with a space in its name. It leaves nothing behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	tmp := filepath.Join(t.TempDir(), "a folder")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, umask := range []string{"022", "077"} {
		cmd := exec.Command("sh", "-c", `umask "$1" && exec "$0" demo`, binary(t), umask)
		cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "ANTHROPIC_API_KEY=", "OPENAI_API_KEY=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, want := range []string{"scripted", "5 passed, 0 failed", "Next steps"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the demonstration does not say %q\n%s", want, out)
			}
		}
		// Without a network, the agent quotes apt's error.
		if !regexp.MustCompile(`It says "Hello, world!"[^$]*In a container of Docker it says "Hello, world!"|apt says "E: `).Match(out) {
			t.Errorf("the demonstration shows neither a package and a container nor apt's error\n%s", out)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// An agent of the strong class runs in gVisor and sees a kernel other than the
// host's.
func TestStrongClass(t *testing.T) {
	t.Parallel()
	runsc, err := filepath.Abs("../../.bin/runsc")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "runsc", runsc)
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "dmesg | grep -c gVisor > kernel.txt; sudo id -un; seq 3 | tee seq.txt"}}
      - text: Done.
`)+"machine:\n  strong: "+runsc+"\n")
	strong := a.finish(a.create(url, "Look at the kernel", object{"class": "strong"}))
	usual := a.finish(a.create(url, "Look at the kernel", nil))
	for r, want := range map[*run]bool{&strong: true, &usual: false} {
		got := gittest.Git(t, git.Path("r"), "show", pushed(t, *r)+":kernel.txt")
		if (got != "0" && got != "") != want {
			t.Errorf("gVisor's name stands %q times in the kernel's log, want %v", got, want)
		}
		if seq := gittest.Git(t, git.Path("r"), "show", pushed(t, *r)+":seq.txt"); seq != "1\n2\n3" {
			t.Errorf("seq.txt holds %q", seq)
		}
	}
}
