package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
)

// crashScript streams text slowly, runs a command that writes one line each
// time it runs, and streams text again.
const crashScript = `
scripts:
  - turns:
      - text: "First I say a few words slowly, so that there is time to die in the middle of them."
        chunk: 4
        delay: 15ms
        calls:
          - {tool: Shell, args: {command: "echo ran >> ran.txt; for i in 1 2 3 4 5 6 7 8; do echo tick $i; sleep 0.2; done"}}
      - text: "Then I look."
        calls:
          - {tool: Shell, args: {command: "cat ran.txt; sleep 0.3"}}
      - text: "That was all that there was to do."
        chunk: 4
        delay: 10ms
`

const crashWords = "First I say a few words slowly, so that there is time to die in the middle of them." +
	"Then I look." + "That was all that there was to do."

// stuckScript runs a command that writes one line each time it runs, and then
// hangs until it is killed.
const stuckScript = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {timeout: 600000, command: "echo ran >> ran.txt; echo it is stuck; sleep 986"}}
      - text: "Then I look."
        calls:
          - {tool: Shell, args: {command: "cat ran.txt"}}
      - text: Done.
`

// The server is killed when a certain frame of the stream arrives, and
// restarted. The client resumes with the last id that it saw.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	for _, c := range []struct {
		name   string
		moment func(f frame, text string) bool
	}{
		{"AtOnce", func(f frame, _ string) bool { return f.Event == "status" }},
		{"InTheModelsStream", func(f frame, text string) bool { return len(text) > 20 }},
		{"AsTheCallIsSent", func(f frame, _ string) bool { return f.Event == "tool_call" }},
		{"InTheCall", output("tick 3")},
		{"AfterTheCall", func(f frame, _ string) bool {
			return f.Event == "tool_call" && strings.Contains(f.Data, `"completed"`)
		}},
		{"InTheLastWords", func(f frame, text string) bool { return strings.Contains(text, "That was") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, scripted(t, crashScript))
			r := a.create(url, "Write one line", nil)
			seen := &watcher{t: t}
			a.stream(r, "", func(f frame) bool {
				seen.take(f)
				return !c.moment(f, seen.text)
			})
			a.Kill()
			a.Start()
			for !seen.done {
				a.stream(r, seen.last, func(f frame) bool { seen.take(f); return true })
			}
			r = a.finish(r)
			if seen.text != crashWords {
				t.Errorf("the client has read %q", seen.text)
			}
			whole := &watcher{t: t}
			a.stream(r, "", func(f frame) bool { whole.take(f); return true })
			if !slices.Equal(seen.frames, whole.frames) {
				t.Errorf("the client saw %d frames, the whole stream has %d:\n%s", len(seen.frames), len(whole.frames), firstDifference(seen.frames, whole.frames))
			}
			if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
				t.Errorf("the command ran %d times", strings.Count(got, "ran"))
			}
		})
	}
}

// The server is killed while it creates the machine. The next server uses or
// destroys the partial machine.
func TestServerIsKilledWhileTheMachineIsMade(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, oneCall))
	for round := range 8 {
		r := a.create(url, "Write a file", nil)
		polls := 0
		eventually(t, "the machine is being made", func() bool {
			if strings.Contains(a.events(r.AgentID), `"machine.made"`) {
				polls++
			}
			return polls > round*2 // a little later in each round
		})
		a.Kill()
		a.Start()
		r = a.finish(r)
		if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":hello.txt"); got != "hello" {
			t.Errorf("hello.txt holds %q", got)
		}
	}
}

// output reports whether the commands have printed the words. They may arrive
// in several pieces, because the server delays text that might be the beginning
// of a secret.
func output(words string) func(frame, string) bool {
	var printed string
	return func(f frame, _ string) bool {
		var update struct {
			Type  string
			Event struct{ Value struct{ Data string } }
		}
		if f.Event == "interaction_update" && json.Unmarshal([]byte(f.Data), &update) == nil && update.Type == "shell-output-delta" {
			printed += update.Event.Value.Data
		}
		return strings.Contains(printed, words)
	}
}

// The server is killed many times at arbitrary moments.
func TestServerIsKilledManyTimes(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, crashScript))
	r := a.create(url, "Write one line", nil)
	seen := &watcher{t: t}
	for n := 1; !seen.done && n < 30; n++ {
		frames := 0
		a.stream(r, seen.last, func(f frame) bool {
			seen.take(f)
			frames++
			return frames < 2*n
		})
		if !seen.done {
			a.Kill()
			a.Start()
		}
	}
	r = a.finish(r)
	if seen.text != crashWords {
		t.Errorf("the client has read %q", seen.text)
	}
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
}

// watcher is a client that stores the frames it receives.
type watcher struct {
	t      *testing.T
	frames []string
	text   string
	last   string
	done   bool
}

// take stores a frame that has an id. It fails unless the ids increase.
func (w *watcher) take(f frame) {
	w.t.Helper()
	w.done = w.done || f.Event == "done"
	if f.ID == "" {
		return
	}
	if f.ID < w.last {
		w.t.Errorf("id %s comes after %s", f.ID, w.last)
	}
	w.last = f.ID
	if f.Event == "interaction_update" { // twin frames have the same id
		return
	}
	w.frames = append(w.frames, f.String())
	if f.Event == "assistant" {
		text, _ := f.data(w.t)["text"].(string)
		w.text += text
	}
}

func firstDifference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		x, y := "(nothing)", "(nothing)"
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("frame %d:\n  %s\n  %s", i, x, y)
		}
	}
	return ""
}

// processes returns the processes of the agent's machine whose command line
// contains the word. It finds them by the cgroup that is named after the
// machine.
func processes(t *testing.T, agentID, word string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, dir := range dirs {
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !bytes.Contains(cgroup, []byte(agentID)) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(word)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// kill kills every process of the agent's machine whose command line contains
// the word.
func kill(t *testing.T, agentID, word string) {
	t.Helper()
	pids := processes(t, agentID, word)
	if len(pids) == 0 {
		t.Errorf("no %s in the machine of %s", word, agentID)
	}
	for _, pid := range pids {
		// The process may be a child that is about to exec, or may have died
		// with its parent.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Errorf("kill %s: %v", word, err)
		}
	}
}

func TestExecDaemonIsKilled(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, stuckScript))
	r := a.create(url, "Write one line", nil)
	killed, failed, stuck := false, false, output("it is stuck")
	a.stream(r, "", func(f frame) bool {
		if !killed && stuck(f, "") {
			killed = true
			kill(t, r.AgentID, "exec-daemon")
		}
		if f.Event == "tool_call" && strings.Contains(f.Data, `"error"`) {
			failed = true
		}
		return true
	})
	r = a.finish(r)
	if !killed || !failed {
		t.Errorf("killed %v, the model saw an error %v", killed, failed)
	}
	if strings.Contains(a.events(r.AgentID), "machine.lost") {
		t.Error("the machine was lost too")
	}
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
}

func TestMachineIsKilled(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, stuckScript))
	r := a.create(url, "Write one line", nil)
	killed, stuck := false, output("it is stuck")
	a.stream(r, "", func(f frame) bool {
		if !killed && stuck(f, "") {
			killed = true
			kill(t, r.AgentID, "pod-daemon")
		}
		return true
	})
	r = a.finish(r)
	events := a.events(r.AgentID)
	for _, want := range []string{"machine.lost", "the machine was lost while this call was running", "The machine was restarted"} {
		if !strings.Contains(events, want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
}

// If the machine's disk is lost too, the new machine starts from the pushed
// commits.
func TestMachineIsRemoved(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, crashScript))
	r := a.finish(a.create(url, "Write one line", nil))
	branch := pushed(t, r)
	a.Stop()
	kill(t, r.AgentID, "pod-daemon")
	machines, err := filepath.Glob(filepath.Join(a.Data, "machines", "machines", "*"))
	if err != nil || len(machines) != 1 {
		t.Fatalf("machines %v, %v", machines, err)
	}
	eventually(t, "the mount can be undone", func() bool {
		mounts, err := os.ReadFile("/proc/mounts")
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(string(mounts), "\n") {
			if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], machines[0]) {
				_ = syscall.Unmount(f[1], syscall.MNT_DETACH)
			}
		}
		return os.RemoveAll(machines[0]) == nil
	})
	a.Start()
	a.finish(a.followUp(r, "Once more"))
	if got := gittest.Git(t, git.Path("crash"), "show", branch+":ran.txt"); got != "ran\nran" {
		t.Errorf("ran.txt holds %q", got)
	}
}

func TestStopAndStartAgain(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, crashScript))
	r := a.create(url, "Write one line", nil)
	ticked := output("tick 2")
	a.stream(r, "", func(f frame) bool { return !ticked(f, "") })
	if took := a.Stop(); took > 20*time.Second { // less than one second on an idle host
		t.Errorf("SIGTERM took %s", took)
	}
	if len(processes(t, r.AgentID, "pod-daemon")) == 0 {
		t.Error("the machine did not stay up")
	}
	a.Start()
	r = a.finish(r)
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
	if strings.Contains(a.events(r.AgentID), "machine.lost") {
		t.Error("the machine was lost")
	}
}

// The server reloads its configuration twice during a call. It keeps its address, the
// machine keeps running, and the call runs once.
func TestReloadDuringACall(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("reload", map[string]string{"README.md": "reload\n"})
	a := start(t, scripted(t, crashScript))
	r := a.create(url, "Write one line", nil)
	ticked := output("tick 2")
	a.stream(r, "", func(f frame) bool { return !ticked(f, "") })
	for n := 1; n <= 2; n++ {
		if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server has reloaded", func() bool { return strings.Count(a.log.String(), "has reloaded its configuration") == n })
	}
	r = a.finish(r)
	if got := gittest.Git(t, git.Path("reload"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
	if events := a.events(r.AgentID); strings.Contains(events, "machine.lost") || strings.Count(events, `"run.ended"`) != 1 {
		t.Errorf("the machine was lost, or the run ended twice:\n%s", events)
	}
}

// backgroundScript runs a subagent in the background. The subagent's command
// and the agent's command each wait until the other runs.
const backgroundScript = `
scripts:
  - match: The subagent that worked in the background # where it ends after the agent's reply
    turns:
      - text: So all is done.
  - match: Begin now
    turns:
      - calls:
          - {tool: Shell, args: {timeout: 300000, command: "echo ran >> theirs.txt; echo they work; until [ -e mine.txt ]; do sleep 0.05; done; sleep 1"}}
      - text: They have done their part.
  - turns:
      - calls:
          - {tool: Task, args: {description: half of it, prompt: Begin now, is_background: true}}
      - calls:
          - {tool: Shell, args: {timeout: 300000, command: "echo ran >> mine.txt; echo I work; until [ -e theirs.txt ]; do sleep 0.05; done; sleep 1"}}
      - text: I have done mine.
`

// The server is killed while an agent and its background subagent work. Both
// continue.
func TestServerIsKilledDuringBackgroundTask(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("beside", map[string]string{"README.md": "beside\n"})
	a := start(t, scripted(t, backgroundScript))
	r := a.create(url, "Do all of it", nil)
	eventually(t, "both work", func() bool {
		events := a.events(r.AgentID)
		return strings.Contains(events, `they work\n`) && strings.Contains(events, `I work\n`)
	})
	a.Kill()
	a.Start()
	r = a.finish(r)
	for _, file := range []string{"mine.txt", "theirs.txt"} {
		if got := gittest.Git(t, git.Path("beside"), "show", pushed(t, r)+":"+file); got != "ran" {
			t.Errorf("%s: the command ran %d times", file, strings.Count(got, "ran"))
		}
	}
	if events := a.events(r.AgentID); strings.Count(events, `"task.ended"`) != 1 || !strings.Contains(events, `not a message from the user:\n\nThey have done their part.`) {
		t.Errorf("the agent was not told once:\n%s", events)
	}
}
