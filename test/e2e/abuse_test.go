package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
)

// soaking reports whether "make soak" runs the tests. They are then longer and
// harder.
var soaking = os.Getenv("ALOFT_TEST_SOAK") != ""

// serverMemory is the limit of [aloft.memory] in bytes, whatever a machine does.
const serverMemory = 220 << 20

// enough is the timeout for commands that end by themselves, even on a slow
// host.
const enough = 5 * time.Minute

// attack is a hostile command.
type attack struct {
	name    string
	command string
	timeout time.Duration
	says    string // regular expression that the agent's journal must match; "" matches any
}

var attacks = []attack{
	{name: "ForkBomb", command: `bomb() { bomb | bomb & }; bomb; sleep 30`, timeout: 3 * time.Second},
	{name: "MemoryHog", command: `head -c 4G /dev/zero | tail -c 4G | wc -c; echo went on`, timeout: enough, says: `went on\\n`},
	{name: "SharedMemoryHog", command: `head -c 900M /dev/zero > /dev/shm/hog; rm -f /dev/shm/hog; echo went on`, timeout: enough},
	{name: "FileHog", command: `(for ((i = 10; i < 70000; i++)); do eval "exec $i</dev/null" 2>/dev/null || break; done; echo "stopped at $i")`, timeout: enough, says: `stopped at \d`},
	{name: "TenGigabytes", command: `head -c 10G /dev/zero`, timeout: 20 * time.Second},
	{name: "NoLineBreak", command: `head -c 200M /dev/zero | tr '\0' x`, timeout: enough, says: "bytes left out"},
	{name: "KillsInit", command: `sudo kill -9 1; sudo kill -TERM 1; echo init lives`, timeout: enough, says: `init lives\\n`},
	{name: "KillsEverything", command: `sudo sh -c 'kill -9 -1'; sleep 5`, timeout: enough, says: "exec-daemon was restarted"},
	{name: "StopsEverything", command: `sudo sh -c 'kill -STOP -1'; sleep 5`, timeout: 4 * time.Second},
	{name: "ShellExits", command: `exit 7`, timeout: enough},
	{name: "HoldsOutput", command: `sleep 300 & echo went on`, timeout: enough, says: `went on\\n`},
	{name: "IgnoresSignals", command: `trap '' TERM INT HUP QUIT; sleep 100; sleep 100; sleep 100`, timeout: 2 * time.Second},
	{name: "SetsTheClock", command: `sudo date -s 2031-01-01 2>&1; echo "it is $(date +%Y)"`, timeout: enough, says: "not permitted"},
}

func abuseScript() string {
	var b strings.Builder
	b.WriteString("scripts:\n")
	for _, x := range attacks {
		fmt.Fprintf(&b, "  - match: 'attack %s$'\n    turns:\n      - calls:\n          - {tool: Shell, args: {timeout: %d, command: %q}}\n      - text: Done.\n",
			x.name, x.timeout.Milliseconds(), x.command)
	}
	b.WriteString(`
  - match: calm
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo calm >> calm.txt; cat calm.txt"}}
      - text: Calm.
`)
	return b.String()
}

// TestAbuse runs one attack after another, each in a machine of its own, while
// an agent in another machine of the server works. Every run ends, as FINISHED
// or with an error code. The attacking agent accepts another prompt, the server
// stays within its memory limit, and nothing is left behind.
func TestAbuse(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("abuse", map[string]string{"README.md": "abuse\n"})
	a := start(t, scripted(t, abuseScript())+"machine:\n  memory_bytes: 536870912\n  pids: 600\n")
	a.finish(a.create(url, "Be calm", nil)) // warm up, so that one-time setup is not measured
	files := a.openFiles()
	var agents []string
	for _, x := range attacks {
		t.Run(x.name, func(t *testing.T) {
			began, clock := time.Now(), time.Now().Round(0)
			bad := a.create(url, "Please attack "+x.name, nil)
			agents = append(agents, bad.AgentID)
			a.stream(bad, "", func(f frame) bool { return f.Event != "tool_call" && f.Event != "done" })
			good := a.create(url, "Be calm", nil)
			agents = append(agents, good.AgentID)
			a.finish(good)
			calmAfter := time.Since(began)
			a.typed(a.wait(bad))
			events := a.events(bad.AgentID)
			if !regexp.MustCompile(x.says).MatchString(events) {
				t.Errorf("nothing says %q:\n%s", x.says, events[max(0, len(events)-3000):])
			}
			if len(events) > 8<<20 {
				t.Errorf("the journal took %d bytes", len(events))
			}
			again := a.wait(a.followUp(bad, "Be calm again"))
			a.typed(again)
			// Memory in /dev/shm stays allocated when its writer is killed, so
			// the next run may fail because it has too little memory.
			if x.name != "SharedMemoryHog" && again.Status != "FINISHED" {
				t.Errorf("the run after it is %s: %+v", again.Status, again.Error)
			}
			if peak := a.memory(); peak > serverMemory {
				t.Errorf("the server has taken %d MiB", peak>>20)
			}
			if skew := time.Since(clock) - time.Since(began); skew.Abs() > time.Minute {
				t.Errorf("the host's clock has moved by %s", skew)
			}
			t.Logf("the other finished after %s, all after %s; the server's peak is %d MiB", calmAfter.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), a.memory()>>20)
			for _, r := range []run{bad, good} {
				if status, body := a.do("DELETE", "/v1/agents/"+r.AgentID, nil); status != 200 {
					t.Errorf("delete: %d %s", status, body)
				}
			}
		})
	}
	a.nothingLeft(agents)
	eventually(t, "the server's files are closed", func() bool { return a.openFiles() <= files+8 })
}

// typed fails unless the run is FINISHED or has ended with a code and a hint.
func (a *aloft) typed(r run) {
	a.t.Helper()
	switch r.Status {
	case "FINISHED":
	case "ERROR":
		if code, message, hint, _ := a.why(r); code == "" || code == "internal" || hint == "" {
			a.t.Errorf("the run ended with %q: %s (%s)", code, message, hint)
		}
	default:
		a.t.Errorf("the run is %s", r.Status)
	}
}

// memory returns the peak memory of the server and of its host-daemon, in bytes, without
// the pages of their program, which the kernel counts for each of them and may drop.
func (a *aloft) memory() (total int64) {
	a.t.Helper()
	for _, pid := range []int{a.cmd.Process.Pid, a.serverPID()} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			a.t.Fatal(err)
		}
		m := regexp.MustCompile(`(?s)VmHWM:\s+(\d+) kB.*RssFile:\s+(\d+) kB`).FindSubmatch(text)
		if m == nil {
			a.t.Fatal("no peak in the server's status")
		}
		peak, err := strconv.ParseInt(string(m[1]), 10, 64)
		file, fileErr := strconv.ParseInt(string(m[2]), 10, 64)
		if err := errors.Join(err, fileErr); err != nil {
			a.t.Fatal(err)
		}
		total += (peak - file) << 10
	}
	return total
}

// openFiles returns the number of open file descriptors of the server and its
// host-daemon.
func (a *aloft) openFiles() (total int) {
	a.t.Helper()
	for _, pid := range []int{a.cmd.Process.Pid, a.serverPID()} {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
		if err != nil {
			a.t.Fatal(err)
		}
		total += len(entries)
	}
	return total
}

// nothingLeft fails if any process or cgroup of the agents' machines is left.
// Every test checks mounts and folders when it ends.
func (a *aloft) nothingLeft(agents []string) {
	a.t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, id := range agents {
		eventually(a.t, "the processes of "+id+" are gone", func() bool { return len(processes(a.t, id, "")) == 0 })
		for line := range bytes.Lines(mounts) {
			f := strings.Fields(string(line))
			if len(f) < 3 || !strings.HasPrefix(f[2], "cgroup") {
				continue
			}
			eventually(a.t, "the cgroups of "+id+" are gone", func() bool {
				left, err := filepath.Glob(filepath.Join(f[1], "*"+id+"*"))
				return err == nil && len(left) == 0
			})
		}
	}
}

// The test kills exec-daemon a hundred times in one run (a thousand in a soak
// test), each time during a command. Each call ends with an error that says so,
// and the run continues.
func TestExecDaemonIsKilledAgainAndAgain(t *testing.T) {
	kills := 100
	if soaking {
		kills = 1000
	}
	var script strings.Builder
	script.WriteString("scripts:\n  - turns:\n")
	for range kills {
		script.WriteString("      - calls:\n          - {tool: Shell, args: {command: \"sleep 987\", timeout: 600000}}\n")
	}
	script.WriteString("      - calls:\n          - {tool: Shell, args: {command: \"echo still here > end.txt\"}}\n      - text: Done.\n")
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	a := start(t, scripted(t, script.String()))
	r := a.create(url, "Go on", nil)
	for range kills {
		var at []int
		eventually(t, "a command runs", func() bool {
			at = processes(t, r.AgentID, "sleep\x00987")
			return len(at) > 0
		})
		kill(t, r.AgentID, "exec-daemon")
		eventually(t, "the command has ended", func() bool { return syscall.Kill(at[0], 0) != nil })
	}
	r = a.finish(r)
	events := a.events(r.AgentID)
	if n := strings.Count(events, "exec-daemon was restarted while this call ran"); n < kills {
		t.Errorf("%d calls say that exec-daemon was restarted, not %d", n, kills)
	}
	if strings.Contains(events, "machine.lost") {
		t.Error("the machine was lost")
	}
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":end.txt"); got != "still here" {
		t.Errorf("end.txt holds %q", got)
	}
	if peak := a.memory(); peak > serverMemory {
		t.Errorf("the server has taken %d MiB", peak>>20)
	}
}
