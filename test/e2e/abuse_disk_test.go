package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// onSmallDisk moves the server's data to a disk of the given size, in mount's
// notation.
func (a *aloft) onSmallDisk(size string) {
	a.t.Helper()
	need.Root(a.t)
	disk := a.t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size+",mode=700", "tmpfs", disk).CombinedOutput(); err != nil {
		a.t.Fatalf("mount: %v\n%s", err, out)
	}
	a.Stop()
	moved := filepath.Join(disk, "data")
	if out, err := exec.Command("cp", "-a", a.Data, moved).CombinedOutput(); err != nil {
		a.t.Fatalf("%v\n%s", err, out)
	}
	a.Data = moved
	a.Start()
	a.t.Cleanup(func() {
		a.cleanUp() // before the disk is unmounted
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			a.t.Error(err)
		}
	})
}

// A machine fills the disk that also contains the journal, with a file or with
// a deleted but open file. The server stops the machine and ends its run with
// that reason. Another agent's run may fail too. Even with a full disk the
// agent can be deleted, and then everything works again.
func TestAbuseOfTheDisk(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("disk", map[string]string{"README.md": "disk\n"})
	a := start(t, scripted(t, `
scripts:
  - match: attack by name
    turns:
      - calls:
          - {tool: Shell, args: {command: "cat /dev/zero > /var/tmp/full; echo it was full; sleep 600", timeout: 600000}}
      - text: Done.
  - match: attack without a name
    turns:
      - calls:
          - {tool: Shell, args: {command: "exec 3> /var/tmp/full; rm /var/tmp/full; cat /dev/zero >&3; echo it was full; sleep 600", timeout: 600000}}
      - text: Done.
  - match: calm
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo calm > calm.txt"}}
      - text: Calm.
`)+"machine:\n  disk_bytes: 0\n")
	a.onSmallDisk("256m")
	room := func() bool {
		var fs syscall.Statfs_t
		return syscall.Statfs(a.Data, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 64<<20
	}
	for _, how := range []string{"attack by name", "attack without a name"} {
		bad := a.create(url, how, nil)
		good := a.create(url, "be calm", nil)
		a.endsIn(bad, "disk_limit")
		a.typed(a.wait(good))
		if status, body := a.do("DELETE", "/v1/agents/"+bad.AgentID, nil); status != 200 {
			t.Errorf("%s: delete: %d %s", how, status, body)
		}
		eventually(t, "there is room again", room)
		a.finish(a.followUp(good, "be calm"))
		if status, body := a.do("DELETE", "/v1/agents/"+good.AgentID, nil); status != 200 {
			t.Errorf("%s: delete: %d %s", how, status, body)
		}
	}
	eventually(t, "the reserve is taken again", func() bool {
		_, err := os.Stat(filepath.Join(a.Data, "reserve"))
		return err == nil
	})
}

// A machine exceeds its own disk limit. The server stops it but keeps its files, and starts it
// again in the same run, so that the agent can clean up. Install commands and Dockerfile builds
// that exceed the limit are stopped, and the agents work without them.
func TestAMachineOverItsDiskLimit(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("limit", map[string]string{"README.md": "limit\n"})
	a := start(t, scripted(t, `
scripts:
  - match: calm
    turns:
      - text: Calm.
  - turns:
      - calls:
          - {tool: Shell, args: {command: "head -c 100M /dev/zero > /var/tmp/big; sleep 600", timeout: 600000}}
      - calls:
          - {tool: Shell, args: {command: "stat -c 'it has %s bytes' /var/tmp/big; rm /var/tmp/big; echo tidy > tidy.txt"}}
      - text: Tidy.
`)+"images: {builder: buildah}\nmachine:\n  disk_bytes: 67108864\n")
	tidy := a.finish(a.create(url, "attack", nil))
	events := a.events(tidy.AgentID)
	if !strings.Contains(events, `"machine.disk_full"`) || !strings.Contains(events, "its disk limit is 64 MiB; it starts again with a little free space") {
		t.Errorf("the model is not told of the limit:\n%s", events)
	}
	if !regexp.MustCompile(`it has [0-9]{8,9} bytes`).MatchString(events) { // as many as the machine wrote before it was stopped
		t.Error("its files are gone")
	}
	if got := gittest.Git(t, git.Path("limit"), "show", pushed(t, tidy)+":tidy.txt"); got != "tidy" {
		t.Errorf("tidy.txt holds %q", got)
	}
	busybox, err := os.ReadFile(need.Command(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	need.Command(t, "buildah")
	const write = "head -c 209715200 /dev/zero > /var/tmp/big; sleep 600"
	for words, files := range map[string]map[string]string{
		"the machine uses": {".aloft/environment.json": `{"install": "` + write + `"}`},
		"was stopped because of its disk usage": {
			"busybox": string(busybox), ".aloft/environment.json": `{"build": {"dockerfile": "Dockerfile", "context": ".."}}`,
			".aloft/Dockerfile": "FROM scratch\nCOPY --chmod=755 busybox /bin/busybox\nCOPY --chmod=755 busybox /bin/sh\nRUN busybox mkdir -p /var/tmp; busybox " + strings.ReplaceAll(write, "sleep", "busybox sleep") + "\n",
		},
	} {
		r := a.finish(a.create(git.Repo(strings.ReplaceAll(words[:7], " ", "-"), files), "be calm", nil))
		if events := a.events(r.AgentID); !strings.Contains(events, "could not be built") || !strings.Contains(events, words) {
			t.Errorf("a build over the limit does not end with %q:\n%s", words, events)
		}
	}
}

// Root in a machine replaces pod-daemon's socket by a link to a socket of the
// host. The server does not follow the link after a restart.
func TestPlantedSocket(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("planted", map[string]string{"README.md": "planted\n"})
	for _, target := range []string{"../../../../../bait.sock", "/proc/1/root/run/bait.sock"} {
		script := `
scripts:
  - match: attack
    turns:
      - calls:
          - {tool: Shell, args: {command: "sudo rm /run/aloft/pod.sock; sudo ln -s TARGET /run/aloft/pod.sock; ls /run/aloft"}}
      - text: Done.
  - match: calm
    turns:
      - text: Calm.
`
		a := start(t, scripted(t, strings.ReplaceAll(script, "TARGET", target)))
		bad := a.finish(a.create(url, "attack", nil))
		a.Kill()
		a.Start()
		again := a.wait(a.followUp(bad, "be calm"))
		if again.Status != "ERROR" {
			t.Errorf("with %s in the socket's place the run is %s", target, again.Status)
		}
		if !strings.Contains(a.events(again.AgentID), `"machine_failed"`) {
			t.Error("no reason that has a name")
		}
		a.finish(a.create(url, "be calm", nil))
	}
}
