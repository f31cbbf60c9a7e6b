package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/control/execclient"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container"
	"aloft/internal/control/pod"
	"aloft/internal/conversation"
	"aloft/internal/need"
	"aloft/internal/wire/podv1"
)

// TestContainer checks in a real container that the user, the environment and a
// tool call are as documented, and that the clone survives a restart.
func TestContainer(t *testing.T) {
	t.Parallel()
	need.Root(t)
	runc, err := filepath.Abs("../../.bin/runc") // "make build" puts runc there
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "runc", runc)
	f := newForge(t)
	bin := t.TempDir()
	for _, name := range []string{"pod-daemon", "exec-daemon", "sandbox"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, name), "aloft/cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	rt, err := container.New(container.Config{Dir: t.TempDir(), RuntimePath: runc, Binaries: bin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	m, err := rt.Create(t.Context(), machine.Spec{ID: "pod-daemon-test", Image: "host", Limits: machine.Limits{MemoryBytes: 512 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := m.Destroy(ctx); err != nil {
			t.Error(err)
		}
	})
	boot := func() (*pod.Conn, pod.Ready) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c, err := pod.Dial(ctx, m, f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		ready, err := c.Boot(ctx, pod.Boot{
			Checkout:  pod.Checkout{RepoURL: repoURL, Branch: "aloft/x-1", AuthorName: "Ann", AuthorEmail: "a@b"},
			ExecToken: token, GitCredential: "cred-of-the-run",
		}, func(s pod.Step) { t.Logf("%+v", s) })
		if err != nil {
			t.Fatal(err)
		}
		return c, ready
	}
	shell := func(c *pod.Conn, id, command string) string {
		t.Helper()
		e := execclient.NewCalls(c.OpenExec, token)
		defer func() { _ = e.Close() }()
		args, err := json.Marshal(map[string]string{"command": command, "description": "test"})
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := e.Call(t.Context(), conversation.ToolCall{ID: id, Name: "Shell", Args: args}, nil)
		if err != nil || r.Error {
			t.Fatalf("%s: %v: %s", command, err, r.Text)
		}
		return r.Text
	}
	c, before := boot()
	out := shell(c, "call-1", "id -un; pwd; echo $HOME; hostname; cat /proc/1/comm; sudo -n id -u; git push -q origin HEAD 2>&1 && echo pushed; ls /run/aloft 2>&1")
	if want := "ubuntu\n/workspace\n/home/ubuntu\ncursor\npod-daemon\n0\npushed\n"; !strings.Contains(out, want) || !strings.Contains(out, "Permission denied") {
		t.Errorf("shell: %s, want %s and the socket's folder closed", out, want)
	}
	if f.tip("aloft/x-1") != before.BaseCommit {
		t.Error("the branch is not on the forge")
	}
	// If the kernel kills a process for lack of memory, the process's status
	// says so.
	p := planeOf(t, m, nil)
	if _, err := p.StartProcess(t.Context(), connect.NewRequest(&podv1.StartProcessRequest{
		Name: "hog", Command: []string{"awk", `BEGIN { x = "x"; while (1) x = x x }`}, Restart: podv1.Restart_RESTART_NEVER,
	})); err != nil {
		t.Fatal(err)
	}
	until(t, "the hog is reported", func() error {
		hog := p.named(t, "hog")
		if end := hog.GetLastExit(); hog.GetState() != podv1.Process_STATE_ENDED || end.GetSignal() != 9 || !end.GetOutOfMemory() {
			return fmt.Errorf("%v", hog)
		}
		return nil
	})
	stats, err := p.Stats(t.Context(), connect.NewRequest(&podv1.StatsRequest{}))
	if err != nil || stats.Msg.GetOutOfMemoryKills() == 0 || stats.Msg.GetMemoryLimitBytes() != 512<<20 {
		t.Errorf("%v, %v", stats, err)
	}
	c.Close() // a machine uses the newest connection; ours is older
	c, err = pod.Dial(t.Context(), m, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, after := boot()
	if after.BaseCommit != before.BaseCommit || after.Branch != before.Branch || after.BootID == before.BootID {
		t.Errorf("after a restart: %+v, before %+v", after, before)
	}
	if out := shell(c, "call-2", "cat two"); !strings.Contains(out, "two") {
		t.Errorf("the clone after a restart: %s", out)
	}
}
