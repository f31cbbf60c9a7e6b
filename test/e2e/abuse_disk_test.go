package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// onSmallDisk moves the server's data to a disk of that size, as mount says it.
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
		a.cleanUp() // before the disk goes
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			a.t.Error(err)
		}
	})
}

// A machine fills the disk that holds the journal too, for a moment. Its run
// ends, with a reason that has a name if it is an error, the server lives, and
// with room again all goes on. A disk that stays full is told of in the
// configuration reference: the journal waits for room.
func TestAbuseOfTheDisk(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("disk", map[string]string{"README.md": "disk\n"})
	a := start(t, scripted(t, `
scripts:
  - match: attack
    turns:
      - calls:
          - {tool: Shell, args: {command: "cat /dev/zero > /tmp/full 2>&1; rm -f /tmp/full; echo it was full", timeout: 60000}}
      - text: Done.
  - match: calm
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo calm > calm.txt"}}
      - text: Calm.
`))
	a.onSmallDisk("256m")
	brief := a.create(url, "attack", nil)
	a.typed(a.wait(brief))
	a.finish(a.create(url, "be calm", nil))
	eventually(t, "there is room again", func() bool {
		var fs syscall.Statfs_t
		return syscall.Statfs(a.Data, &fs) == nil && fs.Bavail*uint64(fs.Bsize) > 64<<20
	})
	a.finish(a.create(url, "be calm", nil))
	a.finish(a.followUp(brief, "be calm"))
}

// Root in a machine puts a link to a socket of the host in the place of
// pod-daemon's. The server that comes back does not follow it.
func TestPlantedSocket(t *testing.T) {
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
