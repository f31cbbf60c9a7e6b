package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/model/modeltest"
	"aloft/internal/loopbacktest"
	"aloft/internal/need"
)

// why returns the reason that the journal gives for a failed run, and the time
// since the previous event.
func (a *aloft) why(r run) (code, message, hint string, after time.Duration) {
	a.t.Helper()
	var last time.Time
	for _, line := range strings.Split(strings.TrimSpace(a.events(r.AgentID)), "\n") {
		var e struct {
			Time  time.Time
			Kind  string
			RunID string
			Data  struct {
				Failure struct{ Code, Message, Hint string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			a.t.Fatalf("%s: %v", line, err)
		}
		if e.Kind == "run.ended" && e.RunID == r.ID {
			f := e.Data.Failure
			return f.Code, f.Message, f.Hint, e.Time.Sub(last)
		}
		last = e.Time
	}
	a.t.Fatal("the run has not ended")
	return "", "", "", 0
}

// endsIn waits for a run, which must end in ERROR with the given code and a
// hint.
func (a *aloft) endsIn(r run, want string) {
	a.t.Helper()
	r = a.wait(r)
	if r.Status != "ERROR" {
		a.t.Fatalf("the run is %s", r.Status)
	}
	code, message, hint, after := a.why(r)
	if code != want || hint == "" {
		a.t.Errorf("got %s: %s (%s), want %s", code, message, hint, want)
	}
	if after > time.Minute { // two seconds on an idle host
		a.t.Errorf("%s came %s after its cause", code, after)
	}
	ended := false
	a.stream(r, "", func(f frame) bool {
		if f.Event == "error" && f.data(a.t)["code"] != want {
			a.t.Errorf("the stream says %s", f.Data)
		}
		ended = f.Event == "done"
		return true
	})
	if !ended {
		a.t.Error("the stream did not end with done")
	}
}

const oneCall = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "echo hello > hello.txt; sleep 1"}}
      - text: Done.
`

// waits is a script whose command runs until letGo is called.
const waits = `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {timeout: 600000, command: "echo hello > hello.txt; until [ -e /tmp/go ]; do sleep 0.05; done"}}
      - text: Done.
`

// letGo ends the waiting command in the run's machine.
func (a *aloft) letGo(r run) {
	a.t.Helper()
	a.output("agent", "exec", r.AgentID, "--", "touch", "/tmp/go")
}

func TestRepositoryIsWrong(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, waits))
	t.Run("NotThere", func(t *testing.T) { a.endsIn(a.create(git.URL+"/nothing.git", "x", nil), "repo_not_found") })
	t.Run("RefNotThere", func(t *testing.T) {
		r := a.create("", "x", object{"repos": []object{{"url": url, "startingRef": "no-such-branch"}}})
		a.endsIn(r, "ref_not_found")
	})
	t.Run("NobodyListens", func(t *testing.T) {
		a.endsIn(a.create("http://"+loopbacktest.Closed(t)+"/r.git", "x", nil), "repo_unreachable")
	})
	t.Run("BranchIsTaken", func(t *testing.T) {
		r := a.create(url, "x", nil)
		a.stream(r, "", func(f frame) bool { return f.Event != "tool_call" })
		branch := branchOf(t, a, r)
		git.Commit("r", branch, "somebody else's", map[string]string{"theirs.txt": "x\n"})
		a.letGo(r)
		a.endsIn(r, "branch_taken")
	})
	t.Run("CredentialRefused", func(t *testing.T) {
		git.SetAuth("aloft", "right")
		defer git.SetAuth("", "")
		a.endsIn(a.create(url, "x", nil), "credential_refused")
	})
}

// branchOf returns the agent's branch.
func branchOf(t *testing.T, a *aloft, r run) string {
	t.Helper()
	_, after, ok := strings.Cut(a.events(r.AgentID), `"branch":"`)
	branch, _, _ := strings.Cut(after, `"`)
	if !ok || branch == "" {
		t.Fatal("no branch in the journal")
	}
	return branch
}

func TestModelIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config func(t *testing.T) string
		code   string
	}{
		{"KeyWrong", func(t *testing.T) string {
			return anthropic(modeltest.NewAnthropic(t).URL, "sk-wrong", modeltest.Model)
		}, "model_unauthorized"},
		{"NameWrong", func(t *testing.T) string {
			return anthropic(modeltest.NewAnthropic(t).URL, modeltest.Key, "no-such-model")
		}, "model_not_found"},
		{"NobodyListens", func(t *testing.T) string {
			return anthropic("http://"+loopbacktest.Closed(t), modeltest.Key, modeltest.Model)
		}, "model_unreachable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := start(t, c.config(t))
			a.endsIn(a.create("", "x", nil), c.code)
			if all, _ := os.ReadFile(filepath.Join(a.Data, "aloft.db")); strings.Contains(string(all)+a.log.String(), modeltest.Key) {
				t.Error("the key is in the log or the store")
			}
		})
	}
}

func anthropic(url, key, name string) string {
	return fmt.Sprintf("models:\n  - {id: m, provider: anthropic, name: %s, base_url: %s, api_key: %s}\n", name, url, key)
}

func TestHostHasNoRuntime(t *testing.T) {
	t.Parallel()
	a := start(t, scripted(t, oneCall)+"machine:\n  runtime: /no/such/runc\n")
	a.endsIn(a.create("", "x", nil), "no_runtime")
}

// The data disk is full when the server tries to create a machine.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	need.Root(t)
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": strings.Repeat("r\n", 1000)})
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=192m,mode=700", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	a := start(t, scripted(t, oneCall), "TMPDIR="+disk)
	a.Stop()
	moved := filepath.Join(disk, "data")
	if out, err := exec.Command("cp", "-a", a.Data, moved).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a.Data = moved
	a.Start()
	// The test writes this file, since a sparse file would take no space. The
	// remaining space suffices for the run's journal but not for its machine.
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(disk, &fs); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for left := int64(fs.Bavail)*fs.Bsize - 2<<20; left > 0; left -= int64(len(block)) {
		if _, err := fill.Write(block[:min(left, int64(len(block)))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill.Close(); err != nil {
		t.Fatal(err)
	}
	r := a.create("", "Fill it", object{"repos": []object{{"url": url}}})
	full := a.wait(r)
	code, message, hint, _ := a.why(full)
	t.Logf("%s: %s (%s)", code, message, hint)
	if err := os.Remove(fill.Name()); err != nil {
		t.Fatal(err)
	}
	switch full.Status {
	case "ERROR":
		if code != "disk_full" {
			t.Errorf("got %s: %s", code, message)
		}
	case "FINISHED": // the space sufficed after all, and no data is lost
	default:
		t.Errorf("the run is %s", full.Status)
	}
	a.finish(a.followUp(r, "Again, with room"))
}
